"""Triton's six parameters of a product of matrices, and the spaces that tuners try.

Sources of the spaces: vLLM 0.33.0, benchmarks/kernels/benchmark_moe.py and benchmark_w8a8_block_fp8.py
(Apache-2.0). Of dense products (mm): tiles around those that PyTorch Inductor tries, with its groups.
"""

from collections.abc import Mapping, Sequence
from itertools import product

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from dse.errors import DseError

PARAMETERS = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", "num_warps", "num_stages")
Configurations = Int[np.ndarray, "configurations 6"]

SPACES: dict[str, tuple[tuple[int, ...], ...]] = {  # in the order of PARAMETERS
    "moe": (
        (16, 32, 64, 128, 256),
        (32, 64, 128, 256),
        (64, 128, 256),
        (1, 16, 32, 64),
        (4, 8),
        (2, 3, 4, 5),
    ),
    "w8a8": ((16, 32, 64, 128, 256), (32, 64, 128, 256), (64, 128), (1, 16, 32, 64), (4, 8), (2, 3, 4, 5)),
    "mm": ((16, 32, 64, 128, 256), (16, 32, 64, 128, 256), (16, 32, 64, 128), (8,), (2, 4, 8), (2, 3, 4, 5)),
    "wide": (
        (16, 32, 64, 128, 256),
        (16, 32, 64, 128, 256),
        (32, 64, 128, 256),
        (1, 4, 8, 16, 32, 64),
        (4, 8),
        (2, 3, 4, 5),
    ),
}


class Configuration(eqx.Module):
    """The six parameters, as arrays that broadcast."""

    rows: Float[Array, "*#batch"]  # BLOCK_SIZE_M
    columns: Float[Array, "*#batch"]  # BLOCK_SIZE_N
    depth: Float[Array, "*#batch"]  # BLOCK_SIZE_K
    group: Float[Array, "*#batch"]  # GROUP_SIZE_M
    warps: Float[Array, "*#batch"]
    stages: Float[Array, "*#batch"]

    @staticmethod
    def of(configurations: Configurations) -> "Configuration":
        """Columns of a table, single precision. **Shapes:** [1, configurations] each."""
        return Configuration(*(jnp.asarray(column[None], jnp.float32) for column in configurations.T))


def space(name: str, block: Sequence[int] = ()) -> Configurations:
    """List the configurations of a space, those with blocks of scales (rows, depth) only such as divide.

    **Raises:** DseError for a space that is not known.
    """
    if name not in SPACES:
        raise DseError(f"space: found {name!r}, expected one of {', '.join(SPACES)}")
    table = np.array(list(product(*SPACES[name])))
    if block:
        columns, depth = block
        table = table[(table[:, 1] % columns == 0) & (table[:, 2] % depth == 0)]
    return table


def as_dict(configuration: Sequence[int] | np.ndarray) -> dict[str, int]:
    """Name the parameters of one configuration."""
    return {name: int(value) for name, value in zip(PARAMETERS, configuration, strict=True)}


def from_dicts(dicts: Sequence[Mapping[str, int]]) -> Configurations:
    """The table of named configurations. **Raises:** DseError for a parameter that is missing."""
    for values in dicts:
        for name in PARAMETERS:
            if name not in values:
                raise DseError(f"configuration: {name}: missing, expected {', '.join(PARAMETERS)}")
    return np.array([[int(values[name]) for name in PARAMETERS] for values in dicts]).reshape(
        -1, len(PARAMETERS)
    )

"""Triton's six parameters of a matrix product, AMD's three more, and the search spaces of tuners.

Sources of the spaces: vLLM 0.33.0, benchmarks/kernels/benchmark_moe.py and benchmark_w8a8_block_fp8.py;
SGLang, benchmark/kernels/fused_moe_triton/common_utils.py (both Apache-2.0). For dense products (mm): tiles
similar to those of PyTorch Inductor, with its groups.
"""

from collections.abc import Sequence
from itertools import product

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from dse.errors import check_names

PARAMETERS = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", "num_warps", "num_stages")
AMD_PARAMETERS = ("waves_per_eu", "matrix_instr_nonkdim", "kpack")  # optional, in this order
NAMES = (*PARAMETERS, *AMD_PARAMETERS)
Configurations = Int[np.ndarray, "configurations parameters"]

AMD_STAGES = 2  # Triton's default there, and the only value that tuners try
_SIZES, _DEPTHS, _GROUPS, _WARPS = (16, 32, 64, 128, 256), (32, 64, 128, 256), (1, 4, 8, 16, 32), (1, 2, 4, 8)
_STAGES = (2, 3, 4, 5)
SPACES: dict[str, tuple[tuple[int, ...], ...]] = {  # in the order of NAMES
    "moe_amd": (_SIZES, _SIZES, (16, *_DEPTHS), _GROUPS, _WARPS, (2,), (0, 1, 2, 4), (16, 32), (1, 2)),
    "moe_amd_fp8": (_SIZES, _SIZES, _DEPTHS, _GROUPS, _WARPS, (2,), (0, 1, 2, 4)),
    "moe_amd_sglang": (_SIZES[1:], _SIZES, _DEPTHS, _GROUPS, _WARPS, (2,), (0,)),
    "w8a8_amd": (_SIZES, _SIZES, (64, 128), _GROUPS, _WARPS, (2,), (0,)),
    "moe": (_SIZES, _SIZES[1:], (64, 128, 256), (1, 16, 32, 64), (4, 8), _STAGES),
    "w8a8": (_SIZES, _SIZES[1:], (64, 128), (1, 16, 32, 64), (4, 8), _STAGES),
    "mm": (_SIZES, _SIZES, (16, 32, 64, 128), (8,), (2, 4, 8), _STAGES),
    "wide": (_SIZES, _SIZES, _DEPTHS, (1, 4, 8, 16, 32, 64), (4, 8), _STAGES),
}


def _absent():
    return eqx.field(default_factory=lambda: jnp.zeros((), jnp.float32))


class Configuration(eqx.Module):
    """The parameters, as arrays that broadcast."""

    rows: Float[Array, "*#batch"]  # BLOCK_SIZE_M
    columns: Float[Array, "*#batch"]  # BLOCK_SIZE_N
    depth: Float[Array, "*#batch"]  # BLOCK_SIZE_K
    group: Float[Array, "*#batch"]  # GROUP_SIZE_M
    warps: Float[Array, "*#batch"]
    stages: Float[Array, "*#batch"]
    waves: Float[Array, "*#batch"] = _absent()  # per SIMD, target for register allocation; 0: no target
    instruction: Float[Array, "*#batch"] = _absent()  # rows and columns of a matrix instruction; 0: automatic
    pack: Float[Array, "*#batch"] = _absent()  # 2: 16-byte reads of shared memory, not 8; 0: automatic

    @staticmethod
    def of(configurations: Configurations) -> "Configuration":
        """Convert a table, single precision. **Shapes:** [1, configurations]; [1, 1] for missing columns."""
        columns = [jnp.asarray(column[None].astype(np.float32)) for column in configurations.T]
        columns += [jnp.asarray(np.zeros((1, 1), np.float32))] * (len(NAMES) - len(columns))
        return Configuration(*columns)


def space(name: str, block: Sequence[int] = (), amd: bool = False) -> Configurations:
    """List the configurations of a space: with scales, only tiles that divide blocks; on AMD, two stages.

    **Raises:** DseError for an unknown space.
    """
    check_names("space", SPACES, name)
    table = np.array(list(product(*SPACES[name])))
    if amd:
        table = table[table[:, 5] == AMD_STAGES]
    if block:
        columns, depth = block
        table = table[(table[:, 1] % columns == 0) & (table[:, 2] % depth == 0)]
    return table


def as_dict(configuration: Sequence[int] | np.ndarray) -> dict[str, int]:
    """Return the parameters of a configuration by name."""
    return {name: int(value) for name, value in zip(NAMES, configuration, strict=False)}

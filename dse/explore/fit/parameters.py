"""The fitted numbers of a GPU, with priors about their catalogue values.

A fit moves logs: a parameter of 0.1 makes its field 10 % larger. The prior of each is normal about 0, with
the uncertainty of the catalogue value as its standard deviation.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dse.errors import DseError, check_names
from dse.hardware.gpus.tree import GpuFile, of
from dse.types import CLASSES, TENSOR, Gpu, Kernel

_PLAIN = tuple(name for name in CLASSES if name not in TENSOR)
NAMES = (
    "clock",
    "issue_limit",
    "lsu_cycles",
    *(f"cpi.{name}" for name in _PLAIN),
    *(f"latency.{name}" for name in _PLAIN),
)
TENSOR_NAMES = tuple(f"{group}.{name}" for group in ("cpi", "latency") for name in TENSOR)
ALL_NAMES = NAMES + TENSOR_NAMES
# By provenance.
WIDTHS = {"stated": 0.1, "measured": 0.1, "measured here": 0.1, "derived": 0.3, "fitted": 0.3}
FARTHEST = 3.0  # widths
MEASURED_SLACK = 0.1  # of a log: measurements may miss the peak
MOST_CLOCK = 1.3  # of the stated boost: cards exceed it if power allows
CLOCK_WIDTH = 0.3  # for any source: the actual clock depends on power and temperature


def check(names: Sequence[str], field: str = "free") -> None:
    """Check that names are in `ALL_NAMES` and unique. **Raises:** DseError."""
    check_names(field, ALL_NAMES, *names)
    for name in names:
        if names.count(name) > 1:
            raise DseError(f"{field}: found {name!r} twice, expected each name once")


def names_for(kernels: Iterable[Kernel]) -> tuple[str, ...]:
    """Return the names to fit for these kernels: `NAMES`, and the fields of their matrix products."""
    works = [kernel.work for kernel in kernels]
    used = [name for name in TENSOR if any(np.any(np.asarray(getattr(work, name)) > 0) for work in works)]
    return NAMES + tuple(f"{group}.{name}" for group in ("cpi", "latency") for name in used)


def widths(file: GpuFile, names: Sequence[str] = NAMES) -> np.ndarray:
    """Return the prior standard deviation of each parameter, by its field's provenance.

    Fields missing from the file are of products that the GPU does not support, and have no effect.
    """
    provenance = dict.fromkeys(TENSOR_NAMES, "derived")
    provenance |= {record.field: record.provenance for record in file.fields}
    return np.array([CLOCK_WIDTH if name == "clock" else WIDTHS[provenance[name]] for name in names])


def bounds(file: GpuFile, names: Sequence[str] = NAMES) -> np.ndarray:
    """Return the least and the largest log of each parameter, [2, names].

    They are FARTHEST widths from the catalogue's value; and no pipe is faster than its lanes, no SM issues
    more than its schedulers, and DRAM does not exceed its stated bandwidth.
    """
    most = FARTHEST * widths(file, names)
    least = -most
    measured = {record.field for record in file.fields if record.provenance.startswith("measured")}
    gpu = file.gpu
    peak_cycles = 32.0 * gpu.sm_count * gpu.clock / gpu.dram_bandwidth  # per sector of 32 bytes
    for place, name in enumerate(names):
        slack = MEASURED_SLACK if name in measured else 0.0
        if name == "clock":
            most[place] = np.log(MOST_CLOCK)
        elif name == "issue_limit":
            most[place] = slack
        elif name == "cpi.dram":
            least[place] = min(0.0, float(np.log(peak_cycles / gpu.cpi.dram)))
        elif name == "lsu_cycles" or (name.startswith("cpi.") and name != "cpi.l2"):
            least[place] = -slack
    return np.stack([least, most])


def values(gpu: Gpu, names: Sequence[str] = NAMES) -> list[Any]:
    """Return the fields with these names."""
    return [of(gpu, name) for name in names]


def moved(gpu: Gpu, names: Sequence[str], logs: Float[Array, " parameters"]) -> Gpu:
    """Multiply each field of the GPU by the exponential of its parameter; fields of 0 stay 0."""
    new = [
        value * jnp.exp(log.astype(value.dtype)) for value, log in zip(values(gpu, names), logs, strict=True)
    ]
    return eqx.tree_at(lambda tree: values(tree, names), gpu, new)

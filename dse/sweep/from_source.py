"""Configurations of a kernel counted from its CUDA source, as models take them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import numpy as np

from dse.cuda.cache import Cache
from dse.cuda.compile import Failure, Source, architectures, compiler
from dse.cuda.kernel import to_kernel
from dse.cuda.source import Found, characterise_all, configurations, source_of
from dse.data.gpus import GpuFile
from dse.describe import Description, Number
from dse.errors import DseError
from dse.sweep.evaluate import Progress, silent
from dse.types import Gpu, Kernel, Resources


@dataclass(frozen=True)
class Counted:
    """L configurations: what each asks for and does, or why that is not known."""

    kernel: Kernel  # [L]
    resources: Resources  # [L]; no threads where it is not known
    results: tuple[Found | Failure, ...]

    @property
    def failures(self) -> dict[int, Failure]:
        """By the number of the configuration."""
        return {place: each for place, each in enumerate(self.results) if isinstance(each, Failure)}


def count(
    description: Description,
    gpu: Gpu,
    arch: int,
    parameters: Mapping[str, np.ndarray],
    problem: Mapping[str, Number] | None = None,
    progress: Progress = silent,
    source: Source | None = None,
    cache: Cache | None = None,
    workers: int | None = None,
) -> Counted:
    """Compile and execute each configuration for compute capability `arch` / 10.

    **Shapes:** GPU fields scalars, parameters [L].
    **Raises:** as `dse.cuda.source.characterise_all`.
    """
    sizes = description.sizes(**(problem or {}))
    wanted = configurations(description, parameters, sizes, gpu)
    source = source or source_of(description)
    with progress(f"Reading {description.name}", len(wanted)) as advance:
        found = characterise_all(source, arch, wanted, gpu, cache, workers, advance)
    return Counted(*as_models_take_it(found), tuple(found))


def architecture(gpu: GpuFile) -> int:
    """80 for compute capability 8.0. DseError for one that the compiler does not know."""
    capability = gpu.header.compute_capability
    arch = int(capability.replace(".", "")) if capability else 0
    known = architectures()
    if arch not in known:
        found = capability or f"none ({gpu.header.vendor})"
        lowest, highest = min(known) / 10, max(known) / 10
        raise DseError(
            f"{gpu.name}: compute capability: found {found}, expected one from {lowest} to {highest}, which"
            f" {compiler()} compiles for"
        )
    return arch


def as_models_take_it(found: Sequence[Found | Failure]) -> tuple[Kernel, Resources]:
    """Arrays [L]; a failure has no threads, so that no model takes it for a launch."""
    warps = [each.warp if isinstance(each, Found) else {} for each in found]
    fields: dict[str, Any] = {
        "threads": np.array([prod(each.counts.block) if isinstance(each, Found) else 0 for each in found]),
        "blocks": np.array([each.counts.blocks if isinstance(each, Found) else 0 for each in found]),
        "registers": np.array([each.registers if isinstance(each, Found) else 0 for each in found]),
        "shared_bytes": np.array([each.shared_bytes if isinstance(each, Found) else 0 for each in found]),
    }
    with jax.enable_x64(True):
        return to_kernel(warps), Resources(**fields)

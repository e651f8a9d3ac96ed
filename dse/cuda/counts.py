"""Configurations of a kernel as models take them: counted from its source or estimated from some that are."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import numpy as np

from dse.cuda.cache import Cache
from dse.cuda.compile.nvrtc import Failure, architectures, compiler
from dse.cuda.estimate.active_sampling import choose
from dse.cuda.estimate.estimate import Estimate, estimate
from dse.cuda.estimate.features import known
from dse.cuda.estimate.partition import FEWEST
from dse.cuda.profile.to_kernel import to_kernel
from dse.cuda.source import Found, characterise_all, configurations, source_of
from dse.errors import DseError
from dse.gpus.read import GpuFile
from dse.kernels.description import Description, Number, evaluated_names
from dse.progress import Progress, silent
from dse.types import Gpu, Kernel, Resources


@dataclass(frozen=True)
class Counted:
    """L configurations: what each asks for and does, or why that is not known."""

    kernel: Kernel  # [L]
    resources: Resources  # [L]; no threads where it is not known
    failures: dict[int, str]  # why, by the number of the configuration
    found: dict[int, Found | Failure]  # those that were compiled
    guess: Estimate | None = None  # of the others, if not all were

    def left_out(self) -> tuple[Kernel, Resources, np.ndarray]:
        """The compiled ones as estimated from one another, and their numbers among the L."""
        assert self.guess is not None
        fields: dict[str, Any] = {
            name: values[self.guess.compiled] for name, values in self.guess.resources.items()
        }
        fields["registers"] = self.guess.left_out_registers
        with jax.enable_x64(True):
            return to_kernel(self.guess.left_out), Resources(**fields), self.guess.compiled


def count(
    description: Description,
    gpu: Gpu,
    arch: int,
    parameters: Mapping[str, np.ndarray],
    problem: Mapping[str, Number] | None = None,
    progress: Progress = silent,
    compiled: int | None = None,
    cache: Cache | None = None,
    workers: int | None = None,
) -> Counted:
    """Compile and execute configurations for compute capability `arch` / 10: all, or `compiled` of them.

    The others are then estimated from these.

    **Shapes:** GPU fields scalars, parameters [L].
    **Raises:** DseError as `dse.cuda.source.characterise_all`; if `compiled` is too few, or all of them fail.
    """
    sizes = description.sizes(**(problem or {}))
    wanted = configurations(description, parameters, sizes, gpu)
    source = source_of(description)
    if compiled is None or compiled >= len(wanted):
        with progress(f"Reading {description.name}", len(wanted)) as advance:
            results = characterise_all(source, arch, wanted, gpu, cache, workers, advance)
        kernel, resources = as_models_take_it(results)
        found = dict(enumerate(results))
        return Counted(kernel, resources, _failures(found), found)
    if compiled < FEWEST:
        raise DseError(f"--compile: found {compiled}, expected {FEWEST} or more, or all {len(wanted):,}")
    names = evaluated_names(description, parameters, sizes, gpu)
    before = known(source, parameters, wanted, {name: names[name] for name, _ in description.let})
    found = {}
    with progress(f"Reading {description.name}", compiled) as advance:
        while batch := choose(before, compiled, found):
            chosen = [wanted[place] for place in batch]
            done = characterise_all(source, arch, chosen, gpu, cache, workers, advance)
            found |= dict(zip(batch, done, strict=True))
    failures = _failures(found)
    if len(found) - len(failures) < 2:
        raise DseError(f"{description.name}: source: {next(iter(_messages(found)))}")
    guess = estimate(before, found, gpu.limits)
    doubtful = set(np.flatnonzero(guess.fails).tolist()) - set(found)
    failures |= dict.fromkeys(doubtful, "not likely to compile")
    fields: dict[str, Any] = dict(guess.resources)
    with jax.enable_x64(True):
        return Counted(to_kernel(guess.warps), Resources(**fields), failures, found, guess)


def _failures(found: Mapping[int, Found | Failure]) -> dict[int, str]:
    return {place: each.reason for place, each in found.items() if isinstance(each, Failure)}


def _messages(found: Mapping[int, Found | Failure]) -> Iterator[str]:
    return (each.message for each in found.values() if isinstance(each, Failure))


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

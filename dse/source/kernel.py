"""Kernels counted from their source: configurations are compiled and executed, or estimated from others."""

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from operator import attrgetter
from typing import Any

import equinox as eqx
import jax
import numpy as np

from dse.core.precision import in_64_bits
from dse.core.progress import Progress, silent
from dse.errors import DseError, InputWarning
from dse.kernels.counts import Counted, Estimates, KnownBatch, Number, sizes_of
from dse.kernels.description import Description, evaluated_names
from dse.source.cache import Cache
from dse.source.contract import STOPPED, Failure, Source
from dse.source.launches import check_blocks, configurations, is_pointer, no_contents
from dse.source.machine.blocks import TOLERANCE
from dse.source.machine.launch import OF_ATOMICS, OF_BLOCKS, OF_LAUNCH, OUTSIDE, VARIABLE
from dse.source.nvidia.source import CUDA
from dse.source.profiles import KernelProfile, Toolchain
from dse.source.warps import NOTHING, stacked, to_kernel
from dse.types import Gpu, Kernel, Resources

# Unstated data that `with_assumed` names or an error refuses, and what matters only within a block.
_SAID_ELSEWHERE = ("argument", "contents of argument", VARIABLE, OUTSIDE, "the order of atomic operations")
_COUNTED = {
    OF_ATOMICS: "as if all blocks added alike, in turn",
    OF_BLOCKS: "as if all had done so before",
    OF_LAUNCH: "as if each block were alone",
}


def of_cuda(gpu: Gpu) -> Toolchain:
    """Return the toolchain of CUDA for all GPUs."""
    return CUDA


def warn_of_counts(name: str, read: Collection[KernelProfile | Failure]) -> None:
    """Warn of large sampling errors, unknown blocks, assumed contents, and stopped configurations."""
    counts = [result.counts for result in read if isinstance(result, KernelProfile)]
    spreads = [launch.spread for launch in counts]
    if unseen := [launch for launch in counts if launch.doubtful]:
        most = max(unseen, key=lambda launch: launch.unseen)
        problem = (
            f"{most.unseen:,} of {most.blocks:,} blocks not looked at, in {len(unseen):,} configurations"
        )
        why = "branches that are known for every block: a few blocks that do far more would not be counted"
        warnings.warn(f"{name}: blocks: found {problem}, expected {why}", InputWarning, stacklevel=2)
    decisions = {decision for launch in counts for decision in launch.unknown if decision.matters}
    for what in sorted({what for decision in decisions for what in decision.depends_on}):
        if not what.startswith(_SAID_ELSEWHERE):
            problem = f"found addresses or branches that depend on {what}, expected none"
            counted = _COUNTED.get(what, "as if it were 0")
            warnings.warn(f"{name}: code: {problem}: counted {counted}", InputWarning, stacklevel=2)
    if unsure := sum(spread > TOLERANCE for spread in spreads):
        problem = f"counts of {unsure:,} configurations with a standard error of up to {max(spreads):.1%}"
        why = f"at most {TOLERANCE:.0%}: blocks differ more than the number that is run can tell"
        warnings.warn(f"{name}: blocks: found {problem}, expected {why}", InputWarning, stacklevel=2)
    stopped = [result for result in read if isinstance(result, Failure) and result.reason == STOPPED]
    if stopped and counts:
        problem = f"{len(stopped):,} of {len(read):,} configurations stopped ({stopped[0].message})"
        why = "all within their limits: these count as impossible"
        warnings.warn(f"{name}: source: found {problem}, expected {why}", InputWarning, stacklevel=2)
    for array, kind, how in dict.fromkeys(zeros for launch in counts for zeros in launch.zeros):
        does = "says where others are read" if is_pointer(kind) else "decides whether work is done"
        warnings.warn(no_contents(name, array, f"{does}: counted {how}", kind), InputWarning, stacklevel=2)


def _described(name: str) -> Any:
    """Return a property: a field of the kernel's description."""
    return property(attrgetter(f"description.{name}"))


@dataclass(frozen=True)
class SourceKernel:
    """A kernel counted from its source, see `dse.kernels.counts.Counts`.

    `compiled` configurations are compiled, and the others estimated from them; None: all are compiled.
    `toolchain` chooses the tools for a GPU.
    """

    description: Description
    compiled: int | None = None
    cache: Cache | None = None
    workers: int | None = None
    toolchain: Callable[[Gpu], Toolchain] = of_cuda

    name = _described("name")
    path = _described("path")
    space = _described("space")
    problem = _described("problem")
    spaces = _described("spaces")
    variant_of = _described("variant_of")
    assumptions = _described("assumptions")

    def count(
        self,
        parameters: Mapping[str, np.ndarray],
        gpus: Gpu,
        problem: Mapping[str, Number] | None = None,
        progress: Progress = silent,
    ) -> Counted:
        """Compile and execute configurations for each GPU: all, or `compiled` of them.

        **Shapes:** as `dse.kernels.counts.Counts.count`.
        **Raises:** DseError as `Toolchain.characterise_all`; if `compiled` is too small, if no
        configuration can be read, or if none compiles for a GPU.
        """
        by_gpu = [
            self._on_one(parameters, jax.tree.map(lambda x, g=g: np.asarray(x)[g], gpus), problem, progress)
            for g in range(len(gpus.clock))
        ]
        return by_gpu[0] if len(by_gpu) == 1 else _together(by_gpu)

    def read(
        self,
        parameters: Mapping[str, np.ndarray],
        gpu: Gpu,
        problem: Mapping[str, Number] | None = None,
        progress: Progress = silent,
    ) -> list[KernelProfile | Failure]:
        """Compile and execute each configuration for a GPU whose fields are scalars."""
        wanted = configurations(self.description, parameters, sizes_of(self, problem), gpu)
        tools = self.toolchain(gpu)
        source = tools.source_of(self.description)
        arch = tools.architecture(gpu, source)
        check_blocks(self.name, wanted, gpu)
        with progress(f"Reading {self.name}", len(wanted)) as advance:
            results = tools.characterise_all(source, arch, wanted, gpu, self.cache, self.workers, advance)
        warn_of_counts(self.name, results)
        return results

    def _on_one(
        self,
        parameters: Mapping[str, np.ndarray],
        gpu: Gpu,
        problem: Mapping[str, Number] | None,
        progress: Progress,
    ) -> Counted:
        length = len(next(iter(parameters.values())))
        if self.compiled is not None and self.compiled < length:
            return self._estimated(self.compiled, parameters, gpu, problem, progress)
        results = self.read(parameters, gpu, problem, progress)
        read = dict(enumerate(results))
        failures = _failures(read)
        if len(failures) == length:
            raise DseError(f"{self.name}: source: {next(_messages(read))}")
        kernel, resources = stack_profiles(results)
        return Counted.known(kernel, resources, length, failures=failures, compiled=length)

    def _estimated(
        self,
        compiled: int,
        parameters: Mapping[str, np.ndarray],
        gpu: Gpu,
        problem: Mapping[str, Number] | None,
        progress: Progress,
    ) -> Counted:
        """Compile the `compiled` most informative configurations, and estimate the others."""
        from dse.source.estimate.active_sampling import choose  # imports SciPy: a third of a second
        from dse.source.estimate.estimate import estimate
        from dse.source.estimate.features import known
        from dse.source.estimate.partition import FEWEST

        sizes = sizes_of(self, problem)
        wanted = configurations(self.description, parameters, sizes, gpu)
        if compiled < FEWEST:
            raise DseError(f"compile: found {compiled}, expected {FEWEST} or more, or all {len(wanted):,}")
        tools = self.toolchain(gpu)
        source = tools.source_of(self.description)
        arch = tools.architecture(gpu, source)
        names = evaluated_names(self.description, parameters, sizes, gpu)
        before = known(source, parameters, wanted, {name: names[name] for name, _ in self.description.let})
        read: dict[int, KernelProfile | Failure] = {}
        with progress(f"Reading {self.name}", compiled) as advance:
            while batch := choose(before, compiled, read):
                jobs = [wanted[index] for index in batch]
                results = tools.characterise_all(source, arch, jobs, gpu, self.cache, self.workers, advance)
                read |= dict(zip(batch, results, strict=True))
        failures = _failures(read)
        if len(read) - len(failures) < 2:
            raise DseError(f"{self.name}: source: {next(_messages(read))}")
        warn_of_counts(self.name, read.values())
        guess = estimate(before, read, gpu.limits, knows_blocks(source))
        for index in set(np.flatnonzero(guess.fails).tolist()) - set(read):
            failures[index] = "too much shared memory" if before.too_large[index] else "not likely to compile"
        fields: dict[str, Any] = dict(guess.resources)
        left_out = {name: values[guess.compiled] for name, values in fields.items()}
        left_out["registers"] = guess.left_out_registers
        with in_64_bits():
            known_ones = Counted.known(
                to_kernel(guess.left_out), Resources(**left_out), len(guess.compiled)
            ).batch
            return Counted.known(
                to_kernel(guess.warps),
                Resources(**fields),
                len(wanted),
                failures=failures,
                compiled=len(read),
                runs=guess.runs,
                estimates=Estimates(known_ones, guess.compiled),
            )


def _together(by_gpu: list[Counted]) -> Counted:
    """Join several GPUs to one batch, [G, L]. Phases that a kernel lacks on some GPUs are empty there."""
    batches = [counted.batch for counted in by_gpu if isinstance(counted.batch, KnownBatch)]
    most = max(len(batch.kernel.phases) for batch in batches)
    padded = [KnownBatch(_with_phases(batch.kernel, most), batch.resources) for batch in batches]
    batch = jax.tree.map(lambda *rows: np.concatenate(rows), *padded)
    failures = {index: why for counted in by_gpu for index, why in counted.failures.items()}
    return Counted(batch, failures, by_gpu[0].compiled)


def _with_phases(kernel: Kernel, count: int) -> Kernel:
    """Append empty phases to a kernel."""
    missing = count - len(kernel.phases)
    empty = jax.tree.map(np.zeros_like, kernel.phases[:1])
    return eqx.tree_at(lambda k: k.phases, kernel, kernel.phases + empty * missing)


def _failures(read: Mapping[int, KernelProfile | Failure]) -> dict[int, str]:
    return {index: result.reason for index, result in read.items() if isinstance(result, Failure)}


def _messages(read: Mapping[int, KernelProfile | Failure]) -> Iterator[str]:
    return (result.message for result in read.values() if isinstance(result, Failure))


def knows_blocks(source: Source) -> bool:
    """Return whether a source states the size of blocks, so that the compiler limits registers."""
    return "__launch_bounds__" in source.text


def stack_profiles(results: Sequence[KernelProfile | Failure]) -> tuple[Kernel, Resources]:
    """Join results to arrays [L]; failures have no threads, which marks them as no launches."""
    profiles = [result if isinstance(result, KernelProfile) else None for result in results]
    warps = [profile.numbers if profile else NOTHING for profile in profiles]
    fields: dict[str, Any] = {
        "threads": np.array([prod(profile.counts.block) if profile else 0 for profile in profiles]),
        "blocks": np.array([profile.counts.blocks if profile else 0 for profile in profiles]),
        "registers": np.array([profile.registers if profile else 0 for profile in profiles]),
        "shared_bytes": np.array([profile.shared_bytes if profile else 0 for profile in profiles]),
    }
    with in_64_bits():
        return to_kernel(stacked(warps)), Resources(**fields)

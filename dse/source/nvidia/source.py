"""Compiles and executes configurations of a kernel's CUDA source, and keeps on disk what that gives.

Several configurations go through one process together, since starting nvdisasm costs more than one of them.
Machine code and what comes of executing it are kept apart.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np

from dse.core.cluster import processors
from dse.core.parallel import each
from dse.core.processes import OverLimit, memory_limited
from dse.core.version import __version__
from dse.errors import DseError
from dse.hardware import occupancy
from dse.kernels.description import Build, Description
from dse.source.cache import Cache, key
from dse.source.kept import pack, unpack
from dse.source.launches import Argument, Configuration, build_of, name_of, unstated, unstated_numbers
from dse.source.machine.blocks import Sample
from dse.source.nvidia.arguments import as_launched, launch_of
from dse.source.nvidia.caches.cache_model import Traffic, caches_of, latency, misses, touched_bytes
from dse.source.nvidia.compile import nvrtc, triton, triton_cache
from dse.source.nvidia.compile.contract import STOPPED, Compiled, Failure, Source, lasting
from dse.source.nvidia.compile.declared import parameters_of
from dse.source.nvidia.execute.moved_blocks import addresses_of
from dse.source.nvidia.machine.state import Machine
from dse.source.nvidia.profile.average_warp import warp_counts
from dse.source.nvidia.profile.characterise import Characterisation, prepare, run_sample, summary
from dse.source.nvidia.profile.walk import timing
from dse.source.nvidia.sass.disassemble import disassemble_each
from dse.source.nvidia.sass.listing import Listing
from dse.source.warps import to_kernel
from dse.types import Gpu, Kernel, Resources

FORMAT = "23"  # to be changed with what is kept, and with how it is computed
_BATCH = 16  # configurations that go through one process together, at most
Code = TypeVar("Code")


@dataclass(frozen=True)
class KernelProfile:
    """The resources and the counts of one configuration."""

    registers: int  # of a thread
    shared_bytes: int  # of a block
    stack_bytes: int | None  # of a thread; None if recursion hides it
    spill_bytes: int | None  # that a thread moves if each such instruction runs once; None if not known
    compiler: str
    counts: Characterisation  # `executed` is left out: it is as long as the code
    numbers: np.ndarray  # of the average warp, a row as in `dse.source.warps`

    @property
    def warp(self) -> Kernel:
        """The average warp: fields are NumPy scalars."""
        return to_kernel(self.numbers)


def source_of(description: Description) -> Any:  # a Source, whose compiler may be missing
    """Read the source file of a kernel, as its compiler does.

    **Raises:** DseError if it has none or cannot be read.
    """
    path, build = build_of(description)
    if path.is_dir():
        return triton_cache.read_source(path, build.kernel)
    return _READERS.get(path.suffix, _cuda)(path, build)


def _cuda(path: Path, build: Build) -> Any:
    return nvrtc.read_source(path, build.kernel, options=build.options)


def _triton(path: Path, build: Build) -> Source:
    return triton.read_source(path, build.kernel, build.types, build.options)


_READERS: Mapping[str, Callable[[Path, Build], Source]] = {".py": _triton}  # others are CUDA


def characterise_all(
    source: Source,
    arch: int,
    wanted: Sequence[Configuration],
    gpu: Gpu | None = None,
    cache: Cache | None = None,
    workers: int | None = None,
    progress: Callable[[int], None] = lambda steps: None,
    characterise_batch: "Callable[[Job], dict[str, KernelProfile | Failure]] | None" = None,
) -> list[KernelProfile | Failure]:
    """Profile each configuration, or take it from the cache. `progress` gets the steps just done.

    With a `gpu`, whose fields are scalars, its caches and latencies are taken into account. Other compilers
    than CUDA's have a `characterise_batch` of their own.

    What stands against one configuration is its result: that the compiler refuses it, that an instruction is
    not supported, that it does not end.

    **Raises:** DseError for what is wrong with all: as its `compile`, `disassemble_each`, and of the cache.
    """
    cache = cache or Cache()
    gpu = None if gpu is None else jax.tree.map(np.asarray, gpu)
    same = (source.digest, str(arch), source.compiler, __version__, FORMAT, repr(jax.tree.leaves(gpu)))
    keys = [key(*same, repr(configuration)) for configuration in wanted]
    kept = {name: unpack(packed, KernelProfile, Failure) for name, packed in cache.get(keys).items()}
    results = {name: result for name, result in kept.items() if result is not None}
    missing = {
        name: configuration for name, configuration in zip(keys, wanted, strict=True) if name not in results
    }
    workers = workers or processors()
    size = max(1, min(_BATCH, -(-len(missing) // (4 * workers))))
    names, done = list(missing), len(wanted) - len(missing)
    progress(done)
    jobs = [
        Job(source, arch, gpu, cache, {name: missing[name] for name in names[first : first + size]})
        for first in range(0, len(names), size)
    ]

    def batches_done(batches: int) -> None:
        nonlocal done
        now = len(wanted) - len(missing) + min(batches * size, len(missing))
        progress(now - done)
        done = now

    for made in each(characterise_batch or _characterise_batch, jobs, workers, batches_done):
        results |= made
    return [results[name] for name in keys]


@dataclass(frozen=True)
class Job:
    """Some configurations, by their keys."""

    source: Source
    arch: int
    gpu: Gpu | None
    cache: Cache
    wanted: Mapping[str, Configuration]


def _characterise_batch(job: Job) -> dict[str, KernelProfile | Failure]:
    made_by_key = compiled(job, Compiled)
    results: dict[str, KernelProfile | Failure] = {}
    ready: dict[str, Compiled] = {}
    for name, made in made_by_key.items():
        if isinstance(made, Failure):
            results[name] = made
        elif made.adds_shared and job.wanted[name].shared_bytes is None:
            stated = "shared memory whose size only the launch says"
            message = (
                f"{made.binary.kernel}: shared memory: found {stated}, expected its size (given.shared_bytes)"
            )
            results[name] = Failure("not executed", message)
        elif made.binary.relocated:
            where = made.binary.kernel
            message = f"{where}: code: found addresses left open for loading, expected none"
            results[name] = Failure("not executed", message)
        else:
            ready[name] = made
    unread = {name: made.binary for name, made in ready.items() if made.listing is None}
    listings = dict(zip(unread, disassemble_each(list(unread.values())), strict=True))
    for name, made in ready.items():
        listing = made.listing or listings[name]
        if isinstance(listing, OverLimit):
            results[name] = not_executed(listing)
            continue
        try:
            profile = executed(made, listing, as_launched(made, job.wanted[name]), job.gpu)
            lacks = unstated_number(profile.counts, made, job.source, job.wanted[name].arguments)
            lacks = lacks or unstated_array(profile.counts, made, job.source)
            results[name] = Failure("not executed", lacks) if lacks else profile
        except DseError as error:
            results[name] = not_executed(error)
    keep(job.cache, results)
    return results


def keep(cache: Cache, results: Mapping[str, KernelProfile | Failure]) -> None:
    """Keep the results that are the same each time."""
    cache.put({name: pack(result) for name, result in results.items() if lasting(result)})


def not_executed(error: DseError) -> Failure:
    """Return why a configuration that compiles has no counts."""
    return Failure(STOPPED if isinstance(error, OverLimit) else "not executed", str(error))


def unstated_number(
    counts: Characterisation, made: Compiled, source: Any, arguments: Sequence[Argument]
) -> str:
    """Say which number that is not stated the counts depend on: zero in its place counts less; "" if none."""
    passed = made.launched.passed if made.launched is not None else None
    for what in (what for decision in counts.unknown for what in decision.depends_on):
        if what == "arguments":  # one of them, by an index
            return unstated(made.binary.kernel, names_of(source), unstated_numbers(arguments))
        if number := _NUMBER.match(what):
            place = int(number[1])
            places = [passed[place].argument if passed else place]
            return unstated(made.binary.kernel, names_of(source), places)
    return ""


def unstated_array(counts: Characterisation, made: Compiled, source: Any) -> str:
    """Say which array the counts depend on whose contents are not stated; "" if none.

    Where zeros end work early, or send all accesses to one place, they would count for less than they do.
    Arrays of numbers with fractions are taken to hold zeros.
    """
    passed = made.launched.passed if made.launched is not None else None
    declared = () if passed else parameters_of(source) or ()
    for decision in (decision for decision in counts.unknown if decision.matters):
        for array in filter(None, map(_CONTENTS.match, decision.depends_on)):
            at = int(array[1])
            place = passed[at].argument if passed else at
            if passed:
                whole = not passed[at].fractions
            else:  # that an address depends on it says as much as its type
                whole = decision.what == "address" or any(
                    parameter.whole for parameter in declared[at : at + 1]
                )
            if whole:
                name = "Triton's own memory" if place is None else name_of(names_of(source), place)
                does = "ends or skips work" if decision.what == "branch" else "says where others are read"
                return no_contents(made.binary.kernel, name, does)
    return ""


def no_contents(kernel: str, name: str, does: str) -> str:
    """Say that a launch depends on an array whose contents are not stated."""
    how = f"{name}=SIZE:int32:VALUES, an expression of index and random (given.arguments)"
    return f"{kernel}: {name}: found no contents of the array, which {does}, expected {how}"


def names_of(source: Any) -> Sequence[str]:
    """Name the arguments of a kernel, as far as its source does."""
    return source.names or [parameter.name for parameter in parameters_of(source) or ()]


_NUMBER = re.compile(r"argument (\d+)$")
_CONTENTS = re.compile(r"contents of argument (\d+)")


def compiled(job: Job, kind: type[Code]) -> dict[str, Code | Failure]:
    """Compile, or take from the cache: apart from what is computed, since it serves every GPU of a kind.

    `kind` is what the compiler of the source makes.
    """
    same = ("compiled", job.source.digest, str(job.arch), job.source.compiler, __version__, FORMAT)
    settings = {
        name: job.source.settings(configuration.defines, configuration.arguments)
        for name, configuration in job.wanted.items()
    }
    digests = {name: key(*same, repr(some)) for name, some in settings.items()}
    kept = job.cache.get(set(digests.values()))
    made: dict[str, Any] = {}  # by digest
    for name, digest in digests.items():
        if digest not in made:
            cached = unpack(kept[digest], kind, Failure) if digest in kept else None
            if cached is None:
                cached = job.source.compile(job.arch, settings[name])
                if lasting(cached):
                    job.cache.put({digest: pack(cached, smaller=True)})
            made[digest] = cached
    return {name: made[digest] for name, digest in digests.items()}


def resources(made: Compiled, configuration: Configuration) -> Resources:
    """Return what a launch asks for."""
    fields: dict[str, Any] = {
        "threads": prod(configuration.block),
        "blocks": prod(configuration.grid),
        "registers": made.binary.registers,
        "shared_bytes": made.binary.shared_bytes + (configuration.shared_bytes or 0),
    }
    return Resources(**fields)


def counted(
    machine: Machine, sample: Sample, made: Compiled, configuration: Configuration, gpu: Gpu
) -> Characterisation:
    """Count what the blocks of a sample did, with the caches and latencies of a GPU (scalars)."""
    asked = resources(made, configuration)
    touched = touched_bytes(machine, made.binary.stack_bytes)
    caches = caches_of(gpu, int(asked.shared_bytes), int(resident_blocks(gpu, asked)), touched)
    traffic = misses(machine, sample, caches, partial(addresses_of, machine))
    times = timing(gpu, latency(sum(traffic.values(), Traffic()), gpu))
    return summary(machine, sample, times, traffic)


@jax.jit
def resident_blocks(gpu: Gpu, asked: Resources) -> jax.Array:
    """Return the blocks of a launch that the busiest SM holds at a time."""
    return occupancy.launch(gpu, asked)[0].resident_blocks


def run_launch(made: Compiled, listing: Listing, configuration: Configuration) -> tuple[Machine, Sample]:
    """Execute blocks that represent a launch.

    **Raises:** DseError if they cannot be executed, or take more memory than a compiler may.
    """
    with memory_limited(made.binary.kernel):
        return run_sample(prepare(listing), launch_of(made, configuration))


def executed(
    made: Compiled, listing: Listing, configuration: Configuration, gpu: Gpu | None
) -> KernelProfile:
    """Profile one configuration by executing its machine code.

    **Raises:** DseError if it cannot be executed.
    """
    binary = made.binary
    machine, sample = run_launch(made, listing, configuration)
    counts = summary(machine, sample) if gpu is None else counted(machine, sample, made, configuration, gpu)
    counts = replace(counts, executed={})
    return KernelProfile(
        registers=binary.registers,
        shared_bytes=binary.shared_bytes + (configuration.shared_bytes or 0),
        stack_bytes=binary.stack_bytes,
        spill_bytes=made.spill_bytes,
        compiler=made.compiler,
        counts=counts,
        numbers=warp_counts(counts),
    )

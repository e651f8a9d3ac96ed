"""Compile and execute configurations of a kernel's source, with a cache on disk.

One process handles several configurations together, since starting a compiler's tools costs more than one of
them. Machine code and the results of its execution are cached separately.
"""

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any, TypeVar

import jax
import numpy as np

from dse.core.cluster import processors
from dse.core.parallel import parallel_map
from dse.core.processes import OverLimit, memory_limited
from dse.core.version import __version__
from dse.errors import DseError
from dse.hardware import occupancy
from dse.kernels.description import Description
from dse.source.cache import Cache, key
from dse.source.caches.cache_model import Traffic, caches_of, latency, misses
from dse.source.caches.places import Probe
from dse.source.contract import STOPPED, Failure, Source, lasting
from dse.source.kept import pack, unpack
from dse.source.launches import Configuration, NotStated, assumed, assuming, plainly
from dse.source.machine.addresses import Addresses
from dse.source.machine.blocks import Sample
from dse.source.machine.launch import Dimensions
from dse.source.machine.recorded import Recorded
from dse.source.profile.average_warp import slots, warp_counts
from dse.source.profile.characterise import Barriers, Characterisation, PhaseCounts
from dse.source.warps import to_kernel
from dse.types import Gpu, Kernel, Resources

ASSUMED_STEPS = 20_000  # basic blocks executed with assumed contents, which may never end a loop
FORMAT = "72"  # change this whenever the cached data or their computation change
_BATCH = 16  # maximum configurations per process at a time
# Modules that the first executed configuration imports: Numba, and what it loads with compiled code.
_LATE = (
    "dse.source.amd.profile.touched",
    "dse.source.caches.distances",
    "dse.source.caches.first_touches",
    "dse.source.profile.issue",
    "scipy.linalg.cython_blas",
)
Code = TypeVar("Code")


@dataclass(frozen=True)
class KernelProfile:
    """The resources and the counts of one configuration."""

    registers: int  # of a thread
    shared_bytes: int  # of a block
    stack_bytes: int | None  # of a thread; None if recursion hides it
    spill_bytes: int | None  # moved by a thread if each such instruction runs once; None if unknown
    compiler: str
    counts: Characterisation  # without `executed`, which is as long as the code
    numbers: np.ndarray  # of the average warp, a row as in `dse.source.warps`

    @staticmethod
    def of(
        counts: Characterisation,
        asked: Resources,
        compiler: str,
        stack_bytes: int | None,
        spill_bytes: int | None,
        issued: Callable[[PhaseCounts], float] = slots,
    ) -> "KernelProfile":
        """Average counts over warps, `issued` as in `average_warp.warp_counts`."""
        return KernelProfile(
            registers=int(asked.registers),
            shared_bytes=int(asked.shared_bytes),
            stack_bytes=stack_bytes,
            spill_bytes=spill_bytes,
            compiler=compiler,
            counts=replace(counts, executed={}),
            numbers=warp_counts(counts, issued),
        )

    @property
    def warp(self) -> Kernel:
        """The average warp, with NumPy scalars as fields."""
        return to_kernel(self.numbers)


@dataclass(frozen=True)
class Job:
    """Configurations by key."""

    source: Source
    arch: int
    gpu: Gpu | None
    cache: Cache
    wanted: Mapping[str, Configuration]


Profiler = Callable[[Job], dict[str, KernelProfile | Failure]]  # compiles and executes, by the job's keys


@dataclass(frozen=True)
class Toolchain:
    """The tools of one vendor that turn source into counts."""

    source_of: Callable[[Description], Any]  # a Source
    architecture: Callable[[Gpu, Any], int]  # that a source is compiled for
    profiler: Callable[[], Profiler]  # imports it, when there is something to profile
    rules: str = ""  # changed whenever the computation of counts changes, since they are cached

    def characterise_all(
        self,
        source: Source,
        arch: int,
        wanted: Sequence[Configuration],
        gpu: Gpu | None = None,
        cache: Cache | None = None,
        workers: int | None = None,
        progress: Callable[[int], None] = lambda steps: None,
    ) -> list[KernelProfile | Failure]:
        """Profile each configuration, or take it from the cache. `progress` gets the finished steps.

        With a `gpu`, of scalar fields, its caches and latencies are taken into account.

        An error of one configuration is its result: a compiler's error, an unsupported instruction, an
        endless loop.

        **Raises:** DseError for errors of all: of `compile`, the disassembler, and the cache.
        """
        cache = cache or Cache()
        gpu = None if gpu is None else jax.tree.map(np.asarray, gpu)
        same = (*_compiled_by(source, arch), self.rules, repr(jax.tree.leaves(gpu)))
        keys = [key(*same, repr(configuration)) for configuration in wanted]
        kept = {name: unpack(packed, KernelProfile, Failure) for name, packed in cache.get(keys).items()}
        results = {name: result for name, result in kept.items() if result is not None}
        missing = {
            name: configuration
            for name, configuration in zip(keys, wanted, strict=True)
            if name not in results
        }
        workers = workers or processors()
        size = max(1, min(_BATCH, -(-len(missing) // (2 * workers))))
        names = list(missing)
        progress(len(wanted) - len(missing))
        jobs = [
            Job(source, arch, gpu, cache, {name: missing[name] for name in names[first : first + size]})
            for first in range(0, len(names), size)
        ]
        sizes = [len(job.wanted) for job in jobs]
        if jobs:
            for made in parallel_map(self.profiler(), jobs, workers, progress, sizes, _LATE):
                results |= made
        return [results[name] for name in keys]


def _compiled_by(source: Source, arch: int) -> tuple[str, ...]:
    """Return the properties that the code of all configurations depends on."""
    return source.digest, str(arch), source.compiler, __version__, FORMAT


def compiled(job: Job, kind: type[Code]) -> dict[str, Code | Failure]:
    """Compile, or take code from the cache: separate from counts, since GPUs of one architecture share it.

    `kind` is the result type of the source's compiler.
    """
    settings = {
        name: job.source.settings(configuration.defines, configuration.arguments)
        for name, configuration in job.wanted.items()
    }
    same = ("compiled", *_compiled_by(job.source, job.arch))
    digests = {name: key(*same, repr(values)) for name, values in settings.items()}
    kept = job.cache.get(set(digests.values()))
    made: dict[str, Any] = {digest: unpack(packed, kind, Failure) for digest, packed in kept.items()}
    missing = {digest: settings[name] for name, digest in digests.items() if made.get(digest) is None}
    if together := getattr(job.source, "compile_each", None):
        codes = together(job.arch, [*missing.values()])
    else:
        codes = (job.source.compile(job.arch, values) for values in missing.values())
    for digest, code in zip(missing, codes, strict=True):
        if lasting(code):
            job.cache.put({digest: pack(code, smaller=True)})
        made[digest] = code
    return {name: made[digest] for name, digest in digests.items()}


def executed_each(
    job: Job, made: Mapping[str, Code | Failure], execute: Callable[[str, Code], KernelProfile]
) -> dict[str, KernelProfile | Failure]:
    """Profile compiled configurations by key, and cache reproducible results."""
    results: dict[str, KernelProfile | Failure] = {}
    for name, code in made.items():
        try:
            results[name] = code if isinstance(code, Failure) else execute(name, code)
        except DseError as error:
            reason = STOPPED if isinstance(error, OverLimit) else "not executed"
            results[name] = Failure(reason, plainly(str(error)))
        gc.collect(1)  # bound instructions and their machine know each other: up to a gigabyte would stay
    job.cache.put({name: pack(result) for name, result in results.items() if lasting(result)})
    return results


def with_assumed(
    configuration: Configuration,
    counted: Callable[[Configuration], tuple[KernelProfile, Mapping[int | str, tuple[str, str]], bool]],
) -> tuple[KernelProfile, Configuration]:
    """Count a launch, and again with contents assumed for unstated fractions that decide on work.

    The launch that was counted is returned too.

    `counted` returns those arrays too, their names and types by place, and whether they surely do: if not,
    they do if other contents change the counts. Zeros are kept where no others can be executed.
    """
    profile, zeros, sure = counted(configuration)
    first, known = profile, dict[int | str, tuple[str, str]]()
    launched, most = configuration, max(ASSUMED_STEPS, int(first.counts.insts()))
    while not zeros.keys() <= known.keys():
        known |= zeros
        filled = assuming(configuration, {place: kind for place, (_, kind) in known.items()}, most)
        try:
            profile, zeros, _ = counted(filled)
            launched = filled
        except NotStated:
            raise
        except DseError:  # such as of a loop that is too long to execute trip by trip
            break
    if not sure and launched is not configuration and np.array_equal(profile.numbers, first.numbers):
        return first, configuration
    zeros_hold = launched is configuration
    said = tuple(
        (name, kind, "as if all were 0" if zeros_hold else assumed(kind)) for name, kind in known.values()
    )
    counts = first.counts  # what is assumed is alike in all blocks, but not proven to be
    proven = {"unseen": counts.unseen, "doubtful": counts.doubtful, "zeros": said}
    return replace(profile, counts=replace(profile.counts, **proven)), launched


def asked_of(configuration: Configuration, registers: int, declared_bytes: int) -> Resources:
    """Return the resources of a launch; `declared_bytes` is the static shared memory of the code."""
    fields: dict[str, Any] = {
        "threads": prod(configuration.block),
        "blocks": prod(configuration.grid),
        "registers": registers,
        "shared_bytes": declared_bytes + (configuration.shared_bytes or 0),
    }
    return Resources(**fields)


def moved(
    machine: Recorded,
    sample: Sample,
    gpu: Gpu,
    asked: Resources,
    local_bytes: int | None,
    probe: Probe | None = None,
) -> tuple[dict[Barriers, Traffic], float]:
    """Return (the traffic between the caches of a GPU in each phase, the cycles of an average load).

    A thread accesses `local_bytes` of its own memory; `probe` as in `dse.source.caches.cache_model.misses`.
    """
    resident = int(_resident_blocks(gpu, asked))
    caches = caches_of(gpu, int(asked.shared_bytes), resident, local_bytes)
    limited = probe and partial(_limited, probe, machine.program.kernel)
    traffic = misses(machine, sample, caches, limited)
    return traffic, latency(sum(traffic.values(), Traffic()), gpu)


def _limited(
    probe: Probe,
    kernel: str,
    blocks: Sequence[Dimensions],
    warps: Sequence[int] | None,
    only: frozenset[int],
) -> Addresses:
    """Probe other blocks, which may run for far longer, within the memory that a process may take."""
    with memory_limited(kernel):
        return probe(blocks, warps, only)


@jax.jit
def _resident_blocks(gpu: Gpu, asked: Resources) -> jax.Array:
    """Return the resident blocks of a launch on the busiest SM."""
    return occupancy.launch(gpu, asked)[0].resident_blocks

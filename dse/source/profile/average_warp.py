"""Average the counts of a launch over its warps, in the fields of a `dse.types.Kernel`."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from jaxtyping import Float

from dse.errors import DseError
from dse.hardware.coalescing import SECTOR
from dse.hardware.pairs import PAIRS, fp32_units
from dse.source.caches.cache_model import SLOWEST, Traffic
from dse.source.profile.characterise import AccessCounts, Characterisation, PhaseCounts
from dse.source.profile.single_warp import SOURCES, Walk
from dse.source.warps import row
from dse.types import ARITHMETIC, CLASSES, MMA, TENSOR

# Classes with a pipe of this name; `uniform` takes issue slots, as `control` does.
_WORK = ("fp64", "int32", "imul32", "sfu", "barrier")
_LOADS, _STORES = ("global load", "local load"), ("global store", "local store")
_GLOBAL, _LOCAL = ("global load", "global store"), ("local load", "local store")
_SHARED = ("shared load", "shared store")
# The class of awaited results, by SOURCES; loads and copies have one for each memory.
_LATENCY_OF = {
    "fp32": "fp32", "fp64": "fp64", "int32": "int32", "uniform": "int32", "imul32": "imul32",
    "sfu": "sfu", "shared": "shared", "constant": "shared", "other": "shared",
    **dict.fromkeys(PAIRS, "fp32"), **dict(zip(MMA, MMA, strict=True)),
}  # fmt: skip


def slots(phase: PhaseCounts) -> float:
    """Count the issue slots of one pass of an average block."""
    return all_insts(phase) + phase.reading


def all_insts(phase: PhaseCounts) -> float:
    """Count the warp instructions of one pass of an average block."""
    return sum(phase.insts.values())


def warp_counts(
    counts: Characterisation, issued: Callable[[PhaseCounts], float] = slots
) -> Float[np.ndarray, " numbers"]:
    """Average one launch over its warps: a row as in `dse.source.warps`.

    `issued` counts the issue slots that the warps of a block take in one pass of a phase.

    **Raises:** DseError if the kernel uses textures, which no model supports.
    """
    if counts.insts("texture"):
        raise DseError(
            f"{counts.kernel}: found texture instructions, expected those of pipes that models know"
        )
    warps = counts.warps
    traffic = [phase.traffic * phase.passes for phase in counts.phases if phase.traffic is not None]
    moved = sum(traffic, Traffic())
    slowest = moved.slowest(max((phase.copies.sectors for phase in counts.phases), default=0.0))
    work = [_work(phase, warps, counts.arch) for phase in counts.phases]
    numbers = {}
    for place, phase in enumerate(counts.phases):
        of_phase = {
            "passes": phase.passes,
            "insts": issued(phase) / warps,
            "memory_insts": (_total(phase, "requests", *_LOADS, *_STORES) + _shared(phase)) / warps,
            "slots": 0.0 if phase.walk is None else phase.walk.slots,
            **_by_class("work", work[place]),
            **_by_class("async_work", _async_work(phase, warps)),
            **_by_class("waits", _waits(phase)),
            **_by_class("async_waits", _async_waits(phase, slowest)),
            "async_slots": _async_slots(phase),
        }
        numbers |= {f"phases.{place}.{name}": number for name, number in of_phase.items()}

    def whole(of_phases: Iterable[float]) -> float:
        """Sum numbers of one pass of each phase over all passes."""
        return sum(phase.passes * number for phase, number in zip(counts.phases, of_phases, strict=True))

    def total(field: str, *kinds: str) -> float:
        return whole(_total(phase, field, *kinds) / warps for phase in counts.phases)

    scattered = [_scattered(phase) for phase in counts.phases]
    uncoal_insts = whole(sum(access.requests for access in accesses) / warps for accesses in scattered)
    uncoal_sectors = whole(sum(access.sectors for access in accesses) / warps for accesses in scattered)
    loads, stores = total("requests", *_LOADS), total("requests", *_STORES)
    walks = [phase.walk * phase.passes for phase in counts.phases if phase.walk is not None]
    shared = whole(_shared(phase) / warps for phase in counts.phases)
    totals = {name: whole(phase[name] for phase in work) for name in CLASSES}
    counted = shared + loads + stores + sum(totals[name] for name in (*ARITHMETIC, "mma_warp", "barrier"))
    chain, waits = sum(path.chain for path in walks), sum(path.waits for path in walks)
    numbers |= {
        **_by_class("work", totals),
        "shared_insts": shared,
        "load_insts": loads,
        "store_insts": stores,
        "sectors": total("sectors", *_GLOBAL, *_LOCAL),
        "other_insts": max(whole(all_insts(phase) / warps for phase in counts.phases) - counted, 0.0),
        "uncoal_insts": uncoal_insts,
        "dram_stores": moved.stores_past_l2 / warps,
        "dram_runs": moved.runs_past_l2 / warps,
        "transactions_per_uncoal": _quotient(uncoal_sectors, uncoal_insts, 1.0),
        "bytes_per_access": _quotient(total("bytes", *_GLOBAL, *_LOCAL), loads + stores, 0.0),
        "ilp": max(1.0, _quotient(sum(path.insts for path in walks), chain, 1.0)),
        "mlp": max(1.0, _quotient(sum(path.loads for path in walks), waits, 1.0)),
    }
    return row(numbers, len(counts.phases))


def _by_class(field: str, numbers: Mapping[str, float]) -> dict[str, float]:
    return {f"{field}.{name}": number for name, number in numbers.items()}


def _insts(phase: PhaseCounts, *pipes: str) -> float:
    return sum(phase.insts.get(pipe, 0.0) for pipe in pipes)


def _total(phase: PhaseCounts, field: str, *kinds: str) -> float:
    return sum(getattr(phase.accesses[kind], field) for kind in kinds if kind in phase.accesses)


def _shared(phase: PhaseCounts) -> float:
    """Count instructions on shared memory, and shuffles; asynchronous copies are loads of global memory."""
    return max(_insts(phase, "shared"), _total(phase, "requests", *_SHARED) - phase.copies.requests)


def _shuffles(phase: PhaseCounts, warps: int) -> float:
    """Count shuffles, which take the pipe of shared memory, one pass each."""
    return (_shared(phase) + phase.copies.requests - _total(phase, "requests", *_SHARED)) / warps


def _scattered(phase: PhaseCounts) -> list[AccessCounts]:
    """List the accesses to global memory that touch more than twice the sectors that their bytes need."""
    accesses = [phase.accesses[kind] for kind in _GLOBAL if kind in phase.accesses]
    return [access for access in accesses if access.sectors * SECTOR > 2 * access.bytes]


def _work(phase: PhaseCounts, warps: int, arch: int) -> dict[str, float]:
    """Return the units of work of the average warp by class."""
    traffic = phase.traffic or _without_caches(phase)
    pairs = sum(fp32_units(pipe, arch) * _insts(phase, pipe) for pipe in PAIRS)
    return (
        dict.fromkeys(CLASSES, 0.0)
        | {name: _insts(phase, name) / warps for name in _WORK}
        | {"fp32": (_insts(phase, "fp32") + pairs) / warps}
        | {name: phase.tensor.get(name, 0.0) / warps for name in TENSOR}
        | {
            "shared": _total(phase, "passes", *_SHARED) / warps
            + _shuffles(phase, warps)
            + phase.tensor.get("shared", 0.0) / warps,
            "l1": _total(phase, "passes", *_GLOBAL, *_LOCAL) / warps,
            "l2": traffic.l2_sectors / warps,
            "dram": traffic.dram_sectors / warps,
        }
    )


def _async_work(phase: PhaseCounts, warps: int) -> dict[str, float]:
    """Return the units of work of asynchronous copies, of the average warp."""
    traffic, copies = phase.traffic or _without_caches(phase), phase.copies
    share = _quotient(copies.sectors, _total(phase, "sectors", *_LOADS), 0.0)
    return dict.fromkeys(CLASSES, 0.0) | {
        "shared": copies.passes / warps,
        "l2": share * traffic.loads_past_l1 / warps,
        "dram": share * traffic.loads_past_l2 / warps,
    }


def _waits(phase: PhaseCounts) -> dict[str, float]:
    """Count the awaited results of a warp, by class."""
    waits: dict[str, float] = dict.fromkeys(CLASSES, 0.0)
    if phase.walk is not None:
        waited = _waited(phase.walk)
        for source, name in _LATENCY_OF.items():
            waits[name] += waited[source]
        served = (phase.traffic or _without_caches(phase)).served
        for level, share in zip(("l1", "l2", "dram"), served, strict=True):
            waits[level] += (waited["global"] + waited["local"]) * share
    return waits


def _async_waits(phase: PhaseCounts, slowest: tuple[float, float, float]) -> dict[str, float]:
    """Count the awaited asynchronous copies, by the memory of the `slowest` of a group."""
    path = phase.in_step or phase.walk
    copies = 0.0 if path is None else _waited(path)["copy"]
    waits = dict(zip(("l1", "l2", "dram"), (copies * share for share in slowest), strict=True))
    return dict.fromkeys(CLASSES, 0.0) | waits | {"dram": waits["dram"] * SLOWEST}


def _async_slots(phase: PhaseCounts) -> float:
    """Return the additional cycles of a warp in step with others, without those of awaited copies."""
    if phase.in_step is None or phase.walk is None:
        return 0.0
    return (phase.in_step.cycles - phase.in_step.copied) - (phase.walk.cycles - phase.walk.copied)


def _waited(walk: Walk) -> dict[str, float]:
    """Return the awaited results by source."""
    return dict(zip(SOURCES, walk.latencies.tolist(), strict=True))


def _without_caches(phase: PhaseCounts) -> Traffic:
    """Return the traffic if a block hits only in the sectors that it touched before."""

    def asked(kind: str) -> float:
        return phase.accesses[kind].sectors if kind in phase.accesses else 0.0

    loads, stores = phase.new_sectors["load"], phase.new_sectors["store"] + asked("local store")
    return Traffic(asked("global load"), loads, loads, stores, stores)


def _quotient(a: float, b: float, otherwise: float) -> float:
    return a / b if b else otherwise

"""What was counted of a launch, as models take it: the average warp, in the units of `dse.types.Kernel`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dse.cuda.caches.cache_model import Traffic
from dse.cuda.machine.accesses import SECTOR
from dse.cuda.profile.characterise import Characterisation, Phase
from dse.cuda.sass.opcodes import PIPES
from dse.errors import DseError
from dse.types import CLASSES, Kernel, PerClass
from dse.types import Phase as WarpPhase

Numbers = dict[str, float]  # "load_insts", "work.fp32", "phases.0.passes", "phases.0.work.fp32", ...

# Pipes that stand for more than one kind of instruction; `uniform` takes issue slots, as `control` does.
_WORK = {name: (name,) for name in ("fp64", "int32", "imul32", "sfu", "barrier")} | {"fp32": ("fp32", "fp16")}
_OTHER = ("control", "other", "constant", "uniform")
_GLOBAL, _LOCAL = ("global load", "global store"), ("local load", "local store")
_SHARED = ("shared load", "shared store")
# Where a result that a warp waits for comes from, as `critical.timing` has it; global loads are told apart.
_LATENCY_OF = {
    "fp32": "fp32", "fp16": "fp32", "fp64": "fp64", "int32": "int32", "uniform": "int32", "imul32": "imul32",
    "sfu": "sfu", "shared": "shared", "constant": "shared", "other": "shared", "local": "l1",
}  # fmt: skip


def numbers(found: Characterisation) -> Numbers:
    """The average warp of a launch by the names of `Kernel`'s fields, those within a field after a dot.

    **Raises:** DseError if the kernel uses tensor cores or textures, which no model knows.
    """
    for pipe in ("tensor", "texture"):
        if found.insts(pipe):
            raise DseError(
                f"{found.kernel}: found {pipe} instructions, expected those of pipes that models know"
            )
    phases = [_phase(phase, found.warps) for phase in found.phases]
    whole: Numbers = {}
    for phase in phases:
        for name, value in phase.items():
            whole[name] = whole.get(name, 0.0) + phase["passes"] * value
    walks = [phase.walk * phase.passes for phase in found.phases if phase.walk is not None]
    chain, waits = sum(path.chain for path in walks), sum(path.waits for path in walks)
    accesses = whole["load_insts"] + whole["store_insts"]
    kernel = {name: whole[name] for name in ("shared_insts", "load_insts", "store_insts", "sectors")}
    kernel |= {f"work.{name}": whole[f"work.{name}"] for name in CLASSES}
    kernel |= {
        "other_insts": whole["other_insts"],
        "uncoal_insts": whole["uncoal_insts"],
        "transactions_per_uncoal": _quotient(whole["uncoal_sectors"], whole["uncoal_insts"], 1.0),
        "bytes_per_access": _quotient(whole["bytes"], accesses, 0.0),
        "ilp": max(1.0, _quotient(sum(path.insts for path in walks), chain, 1.0)),
        "mlp": max(1.0, _quotient(sum(path.loads for path in walks), waits, 1.0)),
    }
    for place, phase in enumerate(phases):
        fields = {name: value for name, value in phase.items() if name in _PHASE_FIELDS}
        kernel |= {f"phases.{place}.{name}": value for name, value in fields.items()}
    return kernel


def _phase(phase: Phase, warps: int) -> Numbers:
    """One pass of the average warp."""

    def total(field: str, *kinds: str) -> float:
        return sum(getattr(phase.accesses[kind], field) for kind in kinds if kind in phase.accesses) / warps

    def insts(*pipes: str) -> float:
        return sum(phase.insts.get(pipe, 0.0) for pipe in pipes) / warps

    # Shuffles go through the same pipe as accesses to shared memory, one pass each.
    shuffles = max(insts("shared") - total("requests", *_SHARED), 0.0)
    scattered = [
        phase.accesses[kind]
        for kind in _GLOBAL
        if kind in phase.accesses and phase.accesses[kind].sectors * SECTOR > 2 * phase.accesses[kind].bytes
    ]
    found = {f"work.{name}": insts(*pipes) for name, pipes in _WORK.items()}
    traffic = phase.traffic or _without_caches(phase)
    found |= {
        "passes": phase.passes,
        "insts": insts(*PIPES),
        "memory_insts": insts("shared", "global", "local"),
        "other_insts": insts(*_OTHER),
        "shared_insts": total("requests", *_SHARED) + shuffles,
        "load_insts": total("requests", "global load", "local load"),
        "store_insts": total("requests", "global store", "local store"),
        "sectors": total("sectors", *_GLOBAL, *_LOCAL),
        "bytes": total("bytes", *_GLOBAL, *_LOCAL),
        "uncoal_insts": sum(access.requests for access in scattered) / warps,
        "uncoal_sectors": sum(access.sectors for access in scattered) / warps,
        "work.shared": total("passes", *_SHARED) + shuffles,
        "work.l1": total("passes", *_GLOBAL, *_LOCAL),
        "work.l2": traffic.l2_sectors / warps,
        "work.dram": traffic.dram_sectors / warps,
    }
    waits: Numbers = dict.fromkeys(CLASSES, 0.0)
    slots = 0.0
    if phase.walk is not None:
        slots = phase.walk.slots
        waited: Numbers = dict(zip(PIPES, phase.walk.latencies.tolist(), strict=True))
        for pipe, name in _LATENCY_OF.items():
            waits[name] += waited[pipe]
        for level, share in zip(("l1", "l2", "dram"), traffic.served, strict=True):
            waits[level] += waited["global"] * share
    return found | {f"waits.{name}": value for name, value in waits.items()} | {"slots": slots}


def _without_caches(phase: Phase) -> Traffic:
    """As if a block found again what it touched before, and nothing else."""

    def asked(kind: str) -> float:
        return phase.accesses[kind].sectors if kind in phase.accesses else 0.0

    loads, stores = phase.new_sectors["load"], phase.new_sectors["store"] + asked("local store")
    return Traffic(asked("global load"), loads, loads, stores, stores)


_PHASE_FIELDS = (
    *("passes", "insts", "memory_insts", "slots"),
    *(f"{part}.{name}" for part in ("work", "waits") for name in CLASSES),
)


def to_kernel(warps: Sequence[Numbers]) -> Kernel:
    """Several launches as one `Kernel`, whose fields are arrays [L]; nothing is known of an empty one.

    Launches with fewer phases than others have empty ones at their end.
    """

    def column(name: str) -> np.ndarray:
        return np.array([warp.get(name, _IF_UNKNOWN.get(name, 0.0)) for warp in warps])

    def per_class(prefix: str) -> PerClass:
        fields: Any = {name: column(f"{prefix}.{name}") for name in CLASSES}
        return PerClass(**fields)

    def phase(place: int) -> WarpPhase:
        plain: Any = {name: column(f"phases.{place}.{name}") for name in _PHASE_FIELDS if "." not in name}
        return WarpPhase(
            work=per_class(f"phases.{place}.work"), waits=per_class(f"phases.{place}.waits"), **plain
        )

    most = max(map(_phases, warps), default=0)
    names = [name for name in Kernel.__dataclass_fields__ if name not in ("work", "phases")]
    plain: Any = {name: column(name) for name in names}
    return Kernel(work=per_class("work"), phases=tuple(phase(place) for place in range(most)), **plain)


_IF_UNKNOWN = {"ilp": 1.0, "mlp": 1.0}


def _phases(warp: Mapping[str, float]) -> int:
    return 1 + max((int(name.split(".")[1]) for name in warp if name.startswith("phases.")), default=-1)


def _quotient(a: float, b: float, otherwise: float) -> float:
    return a / b if b else otherwise

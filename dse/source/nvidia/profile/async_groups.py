"""Groups of asynchronous copies and matrix products: what a warp waits for by name, and not by register.

A group is closed, and a later instruction waits until this many groups at most are in flight. Barriers in
shared memory (mbarriers), on which bulk copies arrive, are taken to be waited for in the order in which they
were armed. Source: PTX ISA, asynchronous copies, `wgmma` and `mbarrier`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import inf
from typing import Literal

import numpy as np

from dse.source.nvidia.sass.program import Step

Queue = Literal["copies", "stores", "products", "mbarrier"]


@dataclass(frozen=True)
class Role:
    """Effect of an instruction on the groups of a queue."""

    queue: Queue
    starts: bool = False  # adds a result to the open group
    closes: bool = False  # ends the open group
    waits: bool = False
    left: int | None = None  # groups that may stay in flight after the wait; None: all but the oldest
    into: Queue | None = None  # queue in which the closed group is waited for, if another


_COMMIT = Role("copies", closes=True)
_ROLES = {
    "LDGSTS": Role("copies", starts=True),
    "LDGDEPBAR": _COMMIT,
    **dict.fromkeys(("HGMMA", "IGMMA", "QGMMA", "BGMMA"), Role("products", starts=True)),
    **dict.fromkeys(("UTMASTG", "UTMAREDG", "UBLKRED"), Role("stores", starts=True)),
    "UTMACMDFLUSH": Role("stores", closes=True, into="copies"),
    "UTMALDG": Role("mbarrier", starts=True),
    **dict.fromkeys(("UTCHMMA", "UTCQMMA", "UTCIMMA", "UTCOMMA"), Role("mbarrier", starts=True)),
    "UTCBAR": Role("mbarrier", closes=True),
}


def role(step: Step) -> Role | None:
    """Tell what an instruction does to asynchronous groups; None if nothing."""
    known = _ROLES.get(step.opcode)
    texts = [operand.text for operand in step.sources]
    if known is not None:
        return replace(known, closes=True) if known.queue == "products" and "gsb0" in texts else known
    match step.opcode:
        case "UBLKCP":  # to global or to shared memory
            return Role("stores" if step.modifiers[:1] == ("G",) else "mbarrier", starts=True)
        case "ARRIVES" if step.has("LDGSTSBAR"):
            return Role("copies", closes=True, into="mbarrier")
        case "DEPBAR" if step.has("LE"):  # of a scoreboard; behind it may be others, as in {4,3,1}
            return Role("copies", waits=True, left=int(texts[1], 0))
        case "WARPGROUP" if step.has("DEPBAR"):
            return Role("products", waits=True, left=int(texts[-1], 0))
        case "SYNCS" if step.has("PHASECHK"):
            return Role("mbarrier", waits=True)
        case "SYNCS" if step.has("ARRIVE"):
            return Role("mbarrier", closes=True)
    return None


@dataclass(frozen=True)
class AsyncResult:
    """Arrival of an asynchronous result, and the latencies waited for until then."""

    time: float
    path: np.ndarray


_DONE = AsyncResult(-inf, np.zeros(()))


@dataclass
class _Queue:
    closed: list[AsyncResult] = field(default_factory=list)  # each the last of its group
    open: AsyncResult | None = None

    def close(self) -> None:
        if self.open is not None:
            self.closed.append(self.open)
            self.open = None


@dataclass
class Groups:
    """The groups in flight of one warp."""

    queues: dict[str, _Queue] = field(default_factory=dict)
    most_in_flight: int = 0  # that a wait has left, so far

    def start(self, role: Role, result: AsyncResult) -> None:
        """Add a result to the open group."""
        queue = self.queues.setdefault(role.queue, _Queue())
        if queue.open is None or result.time >= queue.open.time:
            queue.open = result

    def close(self, role: Role) -> None:
        """End the open group. One of no copies is a group too, done at once (PTX ISA); else it is none."""
        queue = self.queues.setdefault(role.queue, _Queue())
        if role == _COMMIT and queue.open is None:
            queue.open = _DONE
        queue.close()
        if role.into is not None:
            self.queues.setdefault(role.into, _Queue()).closed += queue.closed
            queue.closed = []

    def wait(self, role: Role) -> tuple[AsyncResult | None, int]:
        """Return what a wait waits for, and how many groups were in flight. None: for nothing."""
        queue = self.queues.setdefault(role.queue, _Queue())
        if role.left is None and not queue.closed:
            queue.close()
        flying = len(queue.closed)
        over = flying - role.left if role.left is not None else 1
        if over <= 0 or not flying:
            return None, flying
        done, queue.closed = queue.closed[:over], queue.closed[over:]
        self.most_in_flight = max(self.most_in_flight, len(queue.closed))
        return max(done, key=lambda result: result.time), flying

    def postpone(self, cycles: float, latencies: np.ndarray) -> None:
        """Let everything in flight come so much later."""
        for queue in self.queues.values():
            queue.closed = list(_later(queue.closed, cycles, latencies))
            queue.open = next(_later([queue.open] if queue.open else [], cycles, latencies), None)


def _later(results: list[AsyncResult], cycles: float, latencies: np.ndarray) -> Iterator[AsyncResult]:
    return (AsyncResult(result.time + cycles, result.path + latencies) for result in results)

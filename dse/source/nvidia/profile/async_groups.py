"""Groups of asynchronous copies and matrix products, which a warp waits for without registers.

A group is closed, and a later instruction waits until at most some number of groups are in flight. Waits for
barriers in shared memory (mbarriers), on which bulk copies or products of a block arrive, are assumed to be
in the order in which those were armed. Source: PTX ISA, asynchronous copies, `wgmma` and `mbarrier`.
"""

from dataclasses import dataclass, replace
from typing import Literal

from dse.source.nvidia.sass.program import Step

Queue = Literal["copies", "stores", "products", "mbarrier", "block products"]


@dataclass(frozen=True)
class Role:
    """The effect of an instruction on the groups of a queue."""

    queue: Queue
    starts: bool = False  # adds a result to the open group
    closes: bool = False  # ends the open group
    waits: bool = False
    left: int | None = None  # groups that may stay in flight after the wait; None: all but the oldest
    into: Queue | None = None  # queue of the closed group, if another


COMMIT = Role("copies", closes=True)  # a group without copies is done at once (PTX ISA)
_ROLES = {
    "LDGSTS": Role("copies", starts=True),
    "LDGDEPBAR": COMMIT,
    **dict.fromkeys(("HGMMA", "IGMMA", "QGMMA", "BGMMA"), Role("products", starts=True)),
    **dict.fromkeys(("UTMASTG", "UTMAREDG"), Role("stores", starts=True)),
    "UTMACMDFLUSH": Role("stores", closes=True, into="copies"),
    "UTMALDG": Role("mbarrier", starts=True),
    **dict.fromkeys(
        ("UTCCP", "UTCHMMA", "UTCQMMA", "UTCIMMA", "UTCOMMA"), Role("block products", starts=True)
    ),
    "UTCBAR": Role("block products", closes=True),
}
_OTHERS = ("UBLKCP", "UBLKRED", "ARRIVES", "DEPBAR", "WARPGROUP", "SYNCS")


def role(step: Step) -> Role | None:
    """Return the effect of an instruction on asynchronous groups; None if it has none."""
    known = _ROLES.get(step.opcode)
    if known is None and step.opcode not in _OTHERS:
        return None
    texts = [operand.text for operand in step.sources]
    if known is not None:
        return replace(known, closes=True) if known.queue == "products" and "gsb0" in texts else known
    match step.opcode:
        case "UBLKCP" | "UBLKRED":  # to global or to shared memory
            return Role("stores" if step.modifiers[:1] == ("G",) else "mbarrier", starts=True)
        case "ARRIVES" if step.has("LDGSTSBAR"):
            return Role("copies", closes=True, into="mbarrier")
        case "DEPBAR" if step.has("LE"):  # of a scoreboard; others may follow, as in {4,3,1}
            return Role("copies", waits=True, left=int(texts[1], 0))
        case "WARPGROUP" if step.has("DEPBAR"):
            return Role("products", waits=True, left=int(texts[-1], 0))
        case "SYNCS" if step.has("PHASECHK"):
            return Role("block products" if step.of_products else "mbarrier", waits=True)
        case "SYNCS" if step.has("ARRIVE"):
            return Role("mbarrier", closes=True)
    return None

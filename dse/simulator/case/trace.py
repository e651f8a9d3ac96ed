"""A trace: the instructions that one warp executes, with loops rolled."""

from dataclasses import dataclass

from dse.errors import check_names
from dse.simulator.case.program import Loop

ARITHMETIC = (  # the rows of TEG's Table 1
    "int_add",
    "int_mul16",
    "int_mad16",
    "float_add",
    "float_mul",
    "float_mad",
    "double_add",
    "double_mul",
    "double_fma",
)
KINDS = (*ARITHMETIC, "special", "move", "load", "store", "barrier")


@dataclass(frozen=True)
class TraceAccess:
    """The addresses that the lanes of a warp access.

    Lane n accesses `bytes` at n times `stride`, and the next warp the same, `pitch` bytes further. For
    addresses without a stride, `count` is the most words of one bank that a half-warp needs (shared), or the
    number of 32-byte transactions of a warp (global).
    """

    space: str  # "shared" or "global"
    bytes: int = 4
    stride: int = 4
    count: int | None = None
    pitch: int | None = None  # None: each warp continues at the end of the previous one


@dataclass(frozen=True)
class TraceInstruction:
    """One warp instruction. **Errors:** DseError for an unknown kind."""

    kind: str  # one of `KINDS`
    needs: tuple[int, ...] = ()  # instructions whose results it reads, as in `dse.simulator.Program`
    text: str = ""
    lanes: int = 32  # active; the others are masked
    access: TraceAccess | None = None  # to global memory, or to an operand in shared memory

    def __post_init__(self) -> None:
        check_names("instruction: kind", KINDS, self.kind)


@dataclass(frozen=True)
class Trace:
    """All instructions of a warp. Every warp executes the same."""

    name: str
    instructions: tuple[TraceInstruction, ...]
    loops: tuple[Loop, ...] = ()
    block: int | None = None  # warps of a block, at most; None: any number

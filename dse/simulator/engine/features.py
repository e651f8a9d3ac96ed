"""The features that the loop over a batch is compiled for, and the layout of its words."""

from dataclasses import dataclass

NEED_BITS = 16  # of a dependence: a slot, or in dataflow order a distance
EDGE_BITS = 12  # of a distance along an edge of dataflow order
BLOCK = 32  # instructions of a warp that share minima, in dataflow order: 16 and 64 are slower
LAST, BARRIER = 1 << 6, 1 << 7  # flags of an instruction's word, above its subsystem and the next one's
SLOT_AT = 8  # the bit of the word from which on it names the slot of the result
NO_BARRIER = 1 << 12  # in the number of the instruction at which a warp has to meet others
SMALL_THROUGHPUT_BITS = 12  # λ below 2^12 and Λ below 2^20 ticks share a word
TOP = 1 << 31  # tick times stay below it, and above it nothing ever starts


@dataclass(frozen=True)
class Features:
    """The features that some case of a batch needs: a loop is compiled for them and the tables' sizes."""

    dataflow: bool
    ticks: bool  # times are integers: ticks in the upper bits of a word; else float64
    width: int  # rows of warps
    lanes: int  # cases at a time
    subsystems: int
    slots: int  # most groups at a time
    window: int  # results kept of a warp: a power of two; 0 in dataflow order
    loops: int  # most loops in one another
    preds: int  # most predecessors of an instruction
    succs: int  # edges in a row, in dataflow order
    length: int  # most instructions of a program, in dataflow order: whole blocks
    cap: int  # most instructions in flight under a limit; 0: no limit
    schedulers: tuple[bool, ...]  # which of `SCHEDULERS`
    valve: bool
    same_warp: bool
    barriers: bool
    sequence: bool  # more groups than slots
    several: bool  # programs in one case
    packed: bool  # λ and Λ in one word
    record: bool  # the entries' causes
    steady: bool  # look for periods
    profile: bool = False  # with the causes also when, and by whom

    @property
    def key_bits(self) -> int:
        """How many low bits of a word of ticks hold a scheduler's key, or a subsystem."""
        return max(self.width.bit_length(), (self.subsystems - 1).bit_length())

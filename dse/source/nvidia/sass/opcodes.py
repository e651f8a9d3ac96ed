"""The opcodes of NVIDIA machine code since Turing: one row an opcode, with all that is known of it.

To add one, add its row. What a row does not say is ordinary: the first operand is written, all operands are
single registers, and no address or branch may depend on the result.

Source: the instruction set tables of NVIDIA's CUDA binary utilities; pipes after Nsight Compute's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from dse.source.machine.recorded import Pipe
from dse.source.nvidia.sass.operand_layout import (
    Modifiers,
    Words,
    before_others,
    data_bytes,
    exchanged,
    first_and_tests,
    float_conversion,
    float_rounding,
    float_to_integer,
    integer_to_float,
    loaded,
    loaded_matrices,
    matrix_bytes,
    mbarrier,
    nothing,
    pair_unless_32,
    pairs,
    pairs_compared,
    pairs_compared_if_64,
    pairs_if_64,
    single,
    stored,
    stored_matrices,
    tensor_memory,
    vote,
    wide_product,
)
from dse.source.nvidia.sass.operands import Operand

Kind = Literal[
    "",  # computes
    "load",
    "store",
    "atomic",  # gives back the old value
    "reduction",  # an atomic operation that gives nothing back
    "copy",  # from global to shared memory
    "box load",  # the same of a box of a tensor, by one thread
    "box store",  # of a box of a tensor, from shared to global memory
    "branch",  # to an address that it names
    "indirect branch",
    "end",  # of the thread or the function
    "meeting",  # threads wait there for each other
]


@dataclass(frozen=True)
class Opcode:
    """One row of the table: an opcode, without its modifiers and operands."""

    name: str
    pipe: Pipe  # that an instruction keeps busy
    kind: Kind = ""
    writes: int | Callable[[tuple[Operand, ...]], int] = first_and_tests  # how many of the first operands
    words: Callable[[Modifiers], Words] = single  # registers of the destination and the sources
    data: Callable[[Modifiers], int] = data_bytes  # bytes that one thread loads or stores
    fp32: int = 0  # operations of one thread
    rule: str = ""  # the function of dse/source/nvidia/execute/semantics that evaluates it

    def destinations(self, operands: tuple[Operand, ...]) -> int:
        """Number of leading operands that are written."""
        if not operands:
            return 0
        return self.writes if isinstance(self.writes, int) else self.writes(operands)

    def widths(self, modifiers: Modifiers, sources: int) -> tuple[int, list[int]]:
        """Registers of the (first) destination, and of each of this many source operands."""
        destination, *source_words = self.words(modifiers)
        further = [source_words[-1]] * (sources - len(source_words))
        return destination, [*source_words[:sources], *further]

    @property
    def accesses_memory(self) -> bool:
        """Whether operands are addresses of memory that is read or written; constants are no memory."""
        return self.kind in ("load", "store", "atomic", "reduction", "copy", "box load", "box store")

    @property
    def of_box(self) -> bool:
        """Whether a box of a tensor is moved."""
        return self.kind in ("box load", "box store")

    @property
    def stores(self) -> bool:
        """Whether memory is written and nothing is given back."""
        return self.kind in ("store", "reduction", "box store")

    @property
    def atomic(self) -> bool:
        """Whether memory is changed in one step, with or without its old value given back."""
        return self.kind in ("atomic", "reduction")

    @property
    def branches(self) -> bool:
        """Whether the next instruction may be elsewhere, or none."""
        return self.kind in ("branch", "indirect branch", "end")


# fmt: off
_ROWS = (
    # Floats of 32 bits. Operations of one thread: a multiply-add counts as one; FADD2 and its like do two.
    Opcode("FADD",    "fp32",              fp32=1, rule="float_sum"),
    Opcode("FADD2",   "fp32", words=pairs, fp32=2),
    Opcode("FADD32I", "fp32",              fp32=1, rule="float_sum"),
    Opcode("FFMA",    "fp32",              fp32=1, rule="float_multiply_add"),
    Opcode("FFMA2",   "fp32", words=pairs, fp32=2),
    Opcode("FFMA32I", "fp32",              fp32=1, rule="float_multiply_add"),
    Opcode("FHADD",   "fp32",              fp32=1),
    Opcode("FHFMA",   "fp32",              fp32=1),
    Opcode("FMUL",    "fp32",              fp32=1, rule="float_product"),
    Opcode("FMUL2",   "fp32", words=pairs, fp32=2),
    Opcode("FMUL32I", "fp32",              fp32=1, rule="float_product"),
    Opcode("FSWZADD", "fp32",              fp32=1),
    # Pairs of halves.
    Opcode("HADD2",     "fp16", rule="half_to_float"),
    Opcode("HADD2_32I", "fp16"),
    Opcode("HFMA2",     "fp16", rule="half_multiply_add"),
    Opcode("HFMA2_32I", "fp16"),
    Opcode("HMUL2",     "fp16"),
    Opcode("HMUL2_32I", "fp16"),
    # Floats of 64 bits.
    Opcode("DADD",  "fp64",           words=pairs,          rule="double_sum"),
    Opcode("DFMA",  "fp64",           words=pairs,          rule="double_multiply_add"),
    Opcode("DMUL",  "fp64",           words=pairs,          rule="double_product"),
    Opcode("DSETP", "fp64", writes=2, words=pairs_compared, rule="compare_doubles"),
    # Adds, logic, compares, selections and moves; of floats too.
    Opcode("BFE",       "int32"),
    Opcode("BFI",       "int32"),
    Opcode("BMSK",      "int32",                                          rule="bit_mask"),
    Opcode("CS2R",      "int32",              words=pair_unless_32,       rule="special_pair"),
    Opcode("CSET",      "int32"),
    Opcode("CSETP",     "int32", writes=2),
    Opcode("FCHK",      "int32", writes=1,                                rule="check_division"),
    Opcode("FMNMX",     "int32",                                          rule="float_minimum"),
    Opcode("FMNMX3",    "int32"),
    Opcode("FSEL",      "int32",                                          rule="select_real"),
    Opcode("FSET",      "int32"),
    Opcode("FSETP",     "int32", writes=2,                                rule="compare_floats"),
    Opcode("F2FP",      "int32"),
    Opcode("HMNMX2",    "int32"),
    Opcode("HSET2",     "int32"),
    Opcode("HSETP2",    "int32", writes=2),
    Opcode("I2FP",      "int32",                                          rule="integer_to_float"),
    Opcode("I2IP",      "int32"),
    Opcode("IABS",      "int32",                                          rule="absolute"),
    Opcode("IADD",      "int32",              words=pairs_if_64,          rule="add"),
    Opcode("IADD2",     "int32"),
    Opcode("IADD3",     "int32",              words=pairs_if_64,          rule="add"),
    Opcode("IADD32I",   "int32",                                          rule="add"),
    Opcode("ICMP",      "int32"),
    Opcode("IMNMX",     "int32",                                          rule="minimum"),
    Opcode("ISCADD",    "int32"),
    Opcode("ISCADD32I", "int32"),
    Opcode("ISET",      "int32"),
    Opcode("ISETP",     "int32", writes=2,    words=pairs_compared_if_64, rule="compare_integers"),
    Opcode("LEA",       "int32",                                          rule="scaled_add"),
    Opcode("LOP",       "int32"),
    Opcode("LOP3",      "int32",              words=pairs_if_64,          rule="logic"),
    Opcode("LOP32I",    "int32"),
    Opcode("MOV",       "int32",              words=pairs_if_64,          rule="move"),
    Opcode("MOV32I",    "int32",                                          rule="move"),
    Opcode("P2R",       "int32",                                          rule="predicates_to_register"),
    Opcode("PLOP3",     "int32", writes=2,                                rule="predicate_logic"),
    Opcode("PRMT",      "int32",                                          rule="permute"),
    Opcode("PSET",      "int32"),
    Opcode("PSETP",     "int32", writes=2),
    Opcode("R2P",       "int32", writes=0,                                rule="register_to_predicates"),
    Opcode("SEL",       "int32", writes=1,    words=pairs_if_64,          rule="select"),
    Opcode("SGXT",      "int32",                                          rule="extend_sign"),
    Opcode("SHF",       "int32",                                          rule="shift"),
    Opcode("SHL",       "int32"),
    Opcode("SHR",       "int32"),
    Opcode("VABSDIFF",  "int32"),
    Opcode("VABSDIFF4", "int32"),
    Opcode("VADD",      "int32"),
    Opcode("VHMNMX",    "int32"),
    Opcode("VIADD",     "int32",                                          rule="add"),
    Opcode("VIADDMNMX", "int32",                                          rule="add_and_minimum"),
    Opcode("VIMNMX",    "int32",                                          rule="minimum"),
    Opcode("VIMNMX3",   "int32"),
    Opcode("VOTE",      "int32", writes=vote,                             rule="vote"),
    # IMAD also where it only moves, adds or shifts.
    Opcode("IDP",     "imul32"),
    Opcode("IDP4A",   "imul32"),
    Opcode("IMAD",    "imul32", words=wide_product, rule="multiply_add"),
    Opcode("IMAD32I", "imul32"),
    Opcode("IMUL",    "imul32"),
    Opcode("IMUL32I", "imul32"),
    Opcode("XMAD",    "imul32"),
    # Transcendentals, conversions, bit counts.
    Opcode("BREV",   "sfu",                         rule="reverse_bits"),
    Opcode("CREDUX", "sfu",                         rule="reduce"),
    Opcode("F2F",    "sfu", words=float_conversion, rule="float_to_float"),
    Opcode("F2I",    "sfu", words=float_to_integer, rule="float_to_integer"),
    Opcode("FLO",    "sfu",                         rule="highest_bit"),
    Opcode("FRND",   "sfu", words=float_rounding,   rule="round_float"),
    Opcode("I2F",    "sfu", words=integer_to_float, rule="integer_to_float"),
    Opcode("I2I",    "sfu"),
    Opcode("MATCH",  "sfu",                         rule="match"),
    Opcode("MUFU",   "sfu",                         rule="transcendental"),
    Opcode("POPC",   "sfu",                         rule="count_bits"),
    Opcode("REDUX",  "sfu",                         rule="reduce"),
    # Products of matrices; `products` tells their registers.
    Opcode("BMMA",      "tensor"),
    Opcode("DMMA",      "tensor"),
    Opcode("HMMA",      "tensor"),
    Opcode("IMMA",      "tensor"),
    Opcode("OMMA",      "tensor"),
    Opcode("QMMA",      "tensor"),
    Opcode("BGMMA",     "tensor"),
    Opcode("HGMMA",     "tensor"),
    Opcode("IGMMA",     "tensor"),
    Opcode("QGMMA",     "tensor"),
    Opcode("UTCHMMA",   "tensor", writes=0),
    Opcode("UTCIMMA",   "tensor", writes=0),
    Opcode("UTCOMMA",   "tensor", writes=0),
    Opcode("UTCQMMA",   "tensor", writes=0),
    # Once for a warp.
    Opcode("R2UR",       "uniform",                                          rule="to_uniform"),
    Opcode("S2UR",       "uniform",                                          rule="special"),
    Opcode("UBMSK",      "uniform",                                          rule="bit_mask"),
    Opcode("UBREV",      "uniform",                                          rule="reverse_bits"),
    Opcode("UCLEA",      "uniform"),
    Opcode("UF2F",       "uniform",              words=float_conversion,     rule="float_to_float"),
    Opcode("UF2FP",      "uniform"),
    Opcode("UF2I",       "uniform",              words=float_to_integer,     rule="float_to_integer"),
    Opcode("UFADD",      "uniform",                                          rule="float_sum"),
    Opcode("UFFMA",      "uniform",                                          rule="float_multiply_add"),
    Opcode("UFLO",       "uniform",                                          rule="highest_bit"),
    Opcode("UFMNMX",     "uniform",                                          rule="float_minimum"),
    Opcode("UFMUL",      "uniform",                                          rule="float_product"),
    Opcode("UFSEL",      "uniform",                                          rule="select_real"),
    Opcode("UFSET",      "uniform"),
    Opcode("UFSETP",     "uniform", writes=2,                                rule="compare_floats"),
    Opcode("UI2F",       "uniform",              words=integer_to_float,     rule="integer_to_float"),
    Opcode("UI2FP",      "uniform",                                          rule="integer_to_float"),
    Opcode("UI2I",       "uniform"),
    Opcode("UI2IP",      "uniform"),
    Opcode("UIABS",      "uniform",                                          rule="absolute"),
    Opcode("UIADD3",     "uniform",              words=pairs_if_64,          rule="add"),
    Opcode("UIMAD",      "uniform",              words=wide_product,         rule="multiply_add"),
    Opcode("UIMNMX",     "uniform",                                          rule="minimum"),
    Opcode("UISETP",     "uniform", writes=2,    words=pairs_compared_if_64, rule="compare_integers"),
    Opcode("ULEA",       "uniform",                                          rule="scaled_add"),
    Opcode("ULOP",       "uniform"),
    Opcode("ULOP3",      "uniform",                                          rule="logic"),
    Opcode("ULOP32I",    "uniform"),
    Opcode("UMOV",       "uniform",              words=pairs_if_64,          rule="move"),
    Opcode("UP2UR",      "uniform"),
    Opcode("UPLOP3",     "uniform", writes=2,                                rule="predicate_logic"),
    Opcode("UPOPC",      "uniform",                                          rule="count_bits"),
    Opcode("UPRMT",      "uniform",                                          rule="permute"),
    Opcode("UPSETP",     "uniform", writes=2),
    Opcode("UR2UP",      "uniform"),
    Opcode("USEL",       "uniform",              words=pairs_if_64,          rule="select"),
    Opcode("USGXT",      "uniform",                                          rule="extend_sign"),
    Opcode("USHF",       "uniform",                                          rule="shift"),
    Opcode("USHL",       "uniform"),
    Opcode("USHR",       "uniform"),
    Opcode("UVIADD",     "uniform",                                          rule="add"),
    Opcode("UVIADDMNMX", "uniform",                                          rule="add_and_minimum"),
    Opcode("UVIMNMX",    "uniform",                                          rule="minimum"),
    Opcode("VOTEU",      "uniform", writes=vote,                             rule="vote"),
    # What threads exchange takes the way of shared memory.
    Opcode("MOVM", "shared"),
    Opcode("SHFL", "shared", writes=2, rule="shuffle"),
    # Shared memory.
    Opcode("ATOMS", "shared", kind="atomic",           words=exchanged),
    Opcode("LDS",   "shared", kind="load",             words=loaded),
    Opcode("LDSM",  "shared", kind="load",             words=loaded_matrices, data=matrix_bytes),
    Opcode("STS",   "shared", kind="store",  writes=0, words=stored),
    Opcode("STSM",  "shared", kind="store",  writes=0, words=stored_matrices, data=matrix_bytes),
    # Global memory.
    Opcode("ATOM",   "global", kind="atomic",              words=exchanged),
    Opcode("ATOMG",  "global", kind="atomic",              words=exchanged),
    Opcode("LD",     "global", kind="load",                words=loaded),
    Opcode("LDG",    "global", kind="load",                words=loaded),
    Opcode("LDGSTS", "global", kind="copy",      writes=0),
    Opcode("RED",    "global", kind="reduction", writes=0, words=stored),
    Opcode("REDG",   "global", kind="reduction", writes=0, words=stored),
    Opcode("ST",     "global", kind="store",     writes=0, words=stored),
    Opcode("STG",    "global", kind="store",     writes=0, words=stored),
    # Boxes of tensors between global and shared memory.
    Opcode("UTMALDG",  "global", kind="box load",  writes=0, data=nothing),
    Opcode("UTMAREDG", "global", kind="box store", writes=0, data=nothing),
    Opcode("UTMASTG",  "global", kind="box store", writes=0, data=nothing),
    # Local memory.
    Opcode("LDL", "local", kind="load",            words=loaded),
    Opcode("STL", "local", kind="store", writes=0, words=stored),
    # Loads of constants; a constant as an operand takes no instruction.
    Opcode("LDC",  "constant", words=loaded, rule="load_constant"),
    Opcode("LDCU", "constant", words=loaded, rule="load_constant"),
    Opcode("ULDC", "constant", words=loaded, rule="load_constant"),
    # Textures and surfaces.
    Opcode("SUATOM", "texture"),
    Opcode("SULD",   "texture"),
    Opcode("SURED",  "texture", writes=0),
    Opcode("SUST",   "texture", writes=0),
    Opcode("TEX",    "texture"),
    Opcode("TLD",    "texture"),
    Opcode("TLD4",   "texture"),
    Opcode("TMML",   "texture"),
    Opcode("TXD",    "texture"),
    Opcode("TXQ",    "texture"),
    # Barriers of a block.
    Opcode("BAR", "barrier", kind="meeting", writes=0),
    # Issue only.
    Opcode("BMOV",          "control"),
    Opcode("RPCMOV",        "control",                                        rule="move"),
    Opcode("BPT",           "control",                         writes=0),
    Opcode("BRA",           "control", kind="branch",          writes=0),
    Opcode("BREAK",         "control",                         writes=0),
    Opcode("BRX",           "control", kind="indirect branch", writes=0),
    Opcode("BRXU",          "control", kind="indirect branch", writes=0),
    Opcode("BSSY",          "control",                         writes=0),
    Opcode("BSYNC",         "control", kind="meeting",         writes=0),
    Opcode("CALL",          "control", kind="branch",          writes=0),
    Opcode("ENDCOLLECTIVE", "control",                         writes=0),
    Opcode("EXIT",          "control", kind="end",             writes=0),
    Opcode("JMP",           "control", kind="branch",          writes=0),
    Opcode("JMX",           "control", kind="indirect branch", writes=0),
    Opcode("JMXU",          "control", kind="indirect branch", writes=0),
    Opcode("KILL",          "control",                         writes=0),
    Opcode("NANOSLEEP",     "control",                         writes=0),
    Opcode("NOP",           "control",                         writes=0),
    Opcode("RET",           "control", kind="end",             writes=0),
    Opcode("WARPSYNC",      "control", kind="meeting",         writes=0),
    Opcode("YIELD",         "control",                         writes=0),
    Opcode("ELECT",         "control",                         writes=2, rule="elect"),
    Opcode("PREEXIT",       "control",                         writes=0),
    # Issue only: special registers, fences, asynchronous copies.
    Opcode("ACQBULK",      "other", writes=0),
    Opcode("ACQSHMINIT",   "other"),
    Opcode("ARRIVES",      "other", writes=0),
    Opcode("B2R",          "other"),
    Opcode("CCTL",         "other", writes=0),
    Opcode("CCTLL",        "other", writes=0),
    Opcode("CCTLT",        "other", writes=0),
    Opcode("CGAERRBAR",    "other", writes=0),
    Opcode("DEPBAR",       "other", writes=0),
    Opcode("ERRBAR",       "other", writes=0),
    Opcode("FENCE",        "other", writes=0),
    Opcode("GETLMEMBASE",  "other"),
    Opcode("LDGDEPBAR",    "other", writes=0),
    Opcode("LDGMC",        "other"),
    Opcode("LEPC",         "other"),
    Opcode("MEMBAR",       "other", writes=0),
    Opcode("PIXLD",        "other"),
    Opcode("PMTRIG",       "other", writes=0),
    Opcode("R2B",          "other", writes=0),
    Opcode("S2R",          "other",           rule="special"),
    Opcode("SETCTAID",     "other", writes=0),
    Opcode("SETLMEMBASE",  "other"),
    Opcode("SETMAXREG",    "other", writes=0),
    Opcode("SYNCS",        "other", writes=before_others, words=mbarrier, rule="succeeds"),
    Opcode("UBLKCP",       "other", writes=0),
    Opcode("UBLKPF",       "other", writes=0),
    Opcode("UBLKRED",      "other", writes=0),
    Opcode("UCGABAR_ARV",  "other", writes=0),
    Opcode("UCGABAR_GET",  "other"),
    Opcode("UCGABAR_SET",  "other", writes=0),
    Opcode("UCGABAR_WAIT", "other", writes=0),
    Opcode("USETMAXREG",   "other", writes=before_others, rule="succeeds"),
    Opcode("UVIRTCOUNT",   "other", writes=0),
    Opcode("UTMACCTL",     "other", writes=0),
    Opcode("UTMACMDFLUSH", "other", writes=0),
    Opcode("UTMAPF",       "other", writes=0),
    # Tensor memory.
    Opcode("LDTM",       "other",           words=tensor_memory),
    Opcode("LDT",        "other",           words=tensor_memory),
    Opcode("STTM",       "other", writes=0, words=tensor_memory),
    Opcode("STT",        "other", writes=0, words=tensor_memory),
    Opcode("UTCATOMSWS", "other",                                rule="reserve_tensor_memory"),
    Opcode("UTCBAR",     "other", writes=0),
    Opcode("UTCCP",      "other", writes=0),
    Opcode("UTCSHIFT",   "other", writes=0),
    Opcode("WARPGROUP",    "other", writes=0),
    Opcode("WARPGROUPSET", "other", writes=0),
)
# fmt: on

OPCODES: Mapping[str, Opcode] = {row.name: row for row in _ROWS}

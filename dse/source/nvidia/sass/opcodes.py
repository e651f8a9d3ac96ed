"""Table of the opcodes of NVIDIA machine code since Turing.

A row is for an opcode, optionally with modifiers; an instruction has the row that matches most of its
modifiers. The form lists results and sources: `U=iiU` writes a pair, from two words and a pair. Kinds are

    u i      a word: unsigned, signed             U I    the same of 64 bits, in two registers
    f s      float32: as float64, rounded to      D      float64
             float32 when written; unchanged      2      two halves, likewise; of two numbers the low one last
    v        `u`, of .64 `U`                      t      the integer that a modifier names, else `i`
    r        `f`, of .F64 `D`                     e g    the same by the first modifier; the others
    n        a number                             .      an operand that is not read
    k        a term of a sum with carry           p q    a predicate; true, false if absent
    P        a predicate that is written          c ?    tests beside the result; not computed
    b        all leading registers and            K      a sum in 64 bits, and its carries as tests
             predicates                           C      a comparison, combined with a predicate, and its
    B        the predicates that a mask selects          opposite
    o        an address in constant memory        z      a special register
    w x y    registers of an access, of matrices, of    F      float32 as `f`: of two registers, or one twice
             tensor memory

and a kind before `*` holds for all further sources, as does the last kind of rows without a function.
Functions map arrays of lanes to arrays of lanes, the result before the tests; a test that is a function is
computed on demand. `m` first in a form: the function gets the modifiers and returns the function of lanes;
`l`: it also gets the threads. Without a function, no address or branch may depend on the result. `CO` is the
modifier of a sum whose carry is written to a predicate.

Source: the instruction set tables of NVIDIA's CUDA binary utilities; pipes after Nsight Compute's.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np

from dse.source.machine.recorded import Pipe
from dse.source.nvidia.sass import semantics as s
from dse.source.nvidia.sass import warp
from dse.source.nvidia.sass.operands import Operand

Modifiers = tuple[str, ...]
Kind = Literal[
    "",  # computes
    "load",
    "store",
    "atomic",  # returns the old value
    "reduction",  # an atomic operation without result
    "copy",  # from global to shared memory
    "box load",  # copy of a box of a tensor, by one thread
    "box store",  # of a box of a tensor, from shared to global memory
    "branch",  # to a literal address
    "indirect branch",
    "end",  # of the thread or the function
    "meeting",  # threads wait for each other
]


@dataclass(frozen=True)
class Opcode:
    """One row of the table: an opcode, with the modifiers of the row."""

    name: str
    modifiers: frozenset[str]
    pipe: Pipe  # that executes it
    form: str = "u?=u"
    function: Callable[..., Any] | None = None
    kind: Kind = ""
    fp32: int = 0  # operations of one thread

    def destinations(self, operands: tuple[Operand, ...]) -> int:
        """Number of leading operands that are written."""
        kinds, results = [operand.kind for operand in operands], self.form.partition("=")[0]
        if "b" in results:
            others = [kind not in ("register", "predicate") for kind in kinds]
            return others.index(True) if True in others else len(kinds)
        if "c" not in results and "?" not in results and results != "K":
            no_mask = results == "uP" and kinds[0] != "register"
            return {"B": 0, "C": 2}.get(results, len(results) - no_mask)
        # Carries and tests are written to predicates before the register (LOP3) or after it (IADD3), never
        # negated; predicates that are read come after the other sources.
        if kinds[:2] == ["predicate", "register"]:
            return 2
        count = min(1, len(kinds))
        while count < len(kinds) and kinds[count] == "predicate" and not operands[count].negate:
            count += 1
        return count

    def widths(self, modifiers: Modifiers, sources: int) -> tuple[int, list[int]]:
        """Return the number of registers of the (first) destination, and of each source."""
        written, read = _widths(self.form, modifiers)
        return written, [*read[:sources], *[read[-1]] * (sources - len(read))]

    def data(self, modifiers: Modifiers) -> int:
        """Bytes that one thread loads or stores, by a modifier of type or width; else 4.

        Of boxes 1: their size is not in the instruction.
        """
        if self.of_box:
            return 1
        if "x" in self.form:
            return 4 * _registers("x", modifiers)
        narrow = {"U8": 1, "S8": 1, "U16": 2, "S16": 2}
        return next((narrow[name] for name in modifiers if name in narrow), 4 * _registers("w", modifiers))

    @property
    def accesses_memory(self) -> bool:
        """Whether it reads or writes memory other than constants."""
        return self.kind in ("load", "store", "atomic", "reduction", "copy", "box load", "box store")

    @property
    def of_box(self) -> bool:
        """Whether it moves a box of a tensor."""
        return self.kind in ("box load", "box store")


@cache
def kinds_of(form: str, modifiers: Modifiers) -> tuple[str, tuple[str, ...]]:
    """Return the kinds of results and sources, with types named by modifiers filled in."""
    integer = next((_INTEGERS[name] for name in modifiers if name in _INTEGERS), "i")
    real = "D" if "F64" in modifiers else "f"
    first, later = ("D" if "F64" in names else "f" for names in (modifiers[:1], modifiers[1:]))
    word = "U" if "64" in modifiers else "u"
    named = str.maketrans({"v": word, "t": integer, "r": real, "e": first, "g": later})
    results, _, sources = form.translate(named).partition("=")
    return results, tuple(re.findall(r".\*?", sources.lstrip("ml")))


@cache
def _widths(form: str, modifiers: Modifiers) -> tuple[int, list[int]]:
    """Return the registers of the destination and of each source; the last holds for all further ones."""
    results, sources = kinds_of(form, modifiers)
    read = [_registers(kind[0], modifiers) for kind in sources]
    return max((_registers(kind, modifiers) for kind in results), default=1), read or [1]


def _registers(kind: str, modifiers: Modifiers) -> int:
    """Registers of an operand."""
    if kind == "w":
        sizes = [int(size[1]) * int(size[2] or 1) for size in map(_DATA.fullmatch, modifiers) if size]
        return max(1, max(sizes, default=0) // 32)
    if kind == "x":  # one register per matrix of 8 x 8 halves
        return next((int(modifier) for modifier in modifiers if modifier in ("2", "4")), 1)
    if kind == "y":  # .x4 takes 4 registers of each lane's 32 bits
        count = next((int(name[1:]) for name in modifiers if re.fullmatch(r"x\d+", name)), 1)
        wide = next((match[1] for name in modifiers if (match := re.match(r"16dp(128|256)bit", name))), "")
        return count * {"": 1, "128": 2, "256": 4}[wide]
    return 2 if kind in "UIDF" else 1


_DATA = re.compile(r"[USBF]*(\d+)(?:x(\d))?")  # bits and numbers of an access: 128, F64, BF16x4
_INTEGERS = {"U32": "u", "U64": "U", "S64": "I"}
OPCODES: dict[str, Opcode] = {}  # by opcode, with the modifiers of the row
_ROWS: dict[str, list[Opcode]] = {}  # of each opcode


@cache
def opcode(text: str) -> Opcode | None:
    """Return the row of an opcode with its modifiers; None if unknown."""
    name, *modifiers = text.split(".")
    rows = [row for row in _ROWS.get(name, ()) if row.modifiers.issubset(modifiers)]
    return max(rows, key=lambda row: len(row.modifiers), default=None)


def _row(
    names: str, pipe: Pipe, form: str = "u?=u", function: Any = None, kind: Kind = "", fp32: int = 0
) -> None:
    for text in names.split():
        name, *modifiers = text.split(".")
        once = "uniform" if name[0] == "U" and pipe in ("fp32", "int32", "imul32", "sfu", "control") else pipe
        OPCODES[text] = row = Opcode(name, frozenset(modifiers), once, form, function, kind, fp32)
        _ROWS.setdefault(name, []).append(row)


# Floats of 32 bits. Operations of one thread: a multiply-add counts as one; FADD2 and its like do two.
_row("FADD FADD32I", "fp32", "f=ff", np.add, fp32=1)
_row("FMUL FMUL32I", "fp32", "f=ff", np.multiply, fp32=1)
_row("FFMA FFMA32I", "fp32", "f=fff", s.multiply_add, fp32=1)
_row("UFADD", "fp32", "f=ff", np.add)
_row("UFMUL", "fp32", "f=ff", np.multiply)
_row("UFFMA", "fp32", "f=fff", s.multiply_add)
_row("FADD2", "fp32x2", "F=FF", np.add, fp32=2)
_row("FMUL2", "fp32x2", "F=FF", np.multiply, fp32=2)
_row("FFMA2", "fp32x2", "F=FFF", s.multiply_add, fp32=2)
_row("FHADD FHFMA FSWZADD", "fp32", fp32=1)
_row("FMNMX UFMNMX", "int32", "s=ssp", s.float_minimum)
_row("FSEL UFSEL", "int32", "s=ssp", s.select)
_row("FSETP UFSETP", "int32", "C=mss", s.float_test)
_row("FCHK", "int32", "P=ss", s.hard_to_divide)
_row("FMNMX3", "int32", "s=sssp", lambda a, b, c, p: s.float_minimum(s.float_minimum(a, b, p), c, p))
_row("FSET UFSET F2FP UF2FP", "int32")

# Pairs of halves: the compiler also makes constants as a product of zeros.
_row("HFMA2", "fp16", "2=222", s.multiply_add)
_row("HADD2", "fp16", "2=22", np.add)
_row("HMUL2", "fp16", "2=22", np.multiply)
_row("HADD2_32I HFMA2_32I HMUL2_32I", "fp16")
_row("HADD2.F32", "fp16", "f=22", lambda a, b: (a + b)[0])
_row("HMNMX2", "int32", "2=22p", s.float_minimum)
_row("VHMNMX", "int32", "2=222p", lambda a, b, c, p: s.float_minimum(s.float_minimum(a, b, p), c, p))
_row("HSETP2", "int32", "PP=m22p", s.half_tests)
_row(
    "F2FP.PACK_AB UF2FP.PACK_AB", "int32", "2=ss", lambda high, low: np.stack(np.broadcast_arrays(low, high))
)
_row("HSET2", "int32")

# Floats of 64 bits.
_row("DADD", "fp64", "D=DD", lambda a, b: s.longer(a) + b)
_row("DMUL", "fp64", "D=DD", lambda a, b: s.longer(a) * b)
_row("DFMA", "fp64", "D=DDD", lambda a, b, c: s.longer(a) * b + c)
_row("DSETP", "fp64", "C=mDD", s.float_test)

# Sums, minima, comparisons, selections and moves. The compiler also uses IMAD to move, add or shift.
_row("IADD IADD3 UIADD3 IADD32I VIADD UVIADD", "int32", "vc=v*", s.total)
_row("IADD.CO IADD3.CO UIADD3.CO", "int32", "K=k*", s.carried_total)
_row("IADD3.X UIADD3.X IADD3.X.CO UIADD3.X.CO", "int32", "K=k*p*", s.carried_total)
_row("IADD.64.CO IADD3.64.CO UIADD3.64.CO", "int32", "U?=U")
_row("IABS UIABS", "int32", "i=i", np.abs)
for _names, _form, _function in (
    ("IMNMX UIMNMX VIMNMX UVIMNMX", "tc=ttp", s.minimum),
    ("VIADDMNMX UVIADDMNMX", "tc=tttp", lambda a, b, c, p: s.minimum(a + b, c, p)),
    ("VIMNMX3 UVIMNMX3", "tc=tttp", lambda a, b, c, p: s.minimum(s.minimum(a, b, p)[0], c, p)),
):
    _row(_names, "int32", _form, _function)
    _row(
        _names.replace("MX", "MX.RELU").replace("MX.RELU3", "MX3.RELU"),
        "int32",
        _form,
        s.not_negative(_function),
    )
_row("ISETP UISETP", "int32", "C=mtt", s.integer_test)
_row("ISETP.EX UISETP.EX", "int32", "C=mttp", s.extended_test)
_row("LEA ULEA", "int32", "K=ukn", s.scaled_add)
_row("LEA.X ULEA.X", "int32", "K=uknp", s.scaled_add)
_row("LEA.HI ULEA.HI", "int32", "K=ukun", s.scaled_add_high)
_row("LEA.HI.X ULEA.HI.X", "int32", "K=ukunp", s.scaled_add_high)
_row("LEA.HI.SX32 ULEA.HI.SX32", "int32", "K=ikn", s.scaled_add_signed)
_row("LEA.HI.X.SX32 ULEA.HI.X.SX32", "int32", "K=iknp", s.scaled_add_signed)
_row("MOV UMOV MOV32I", "int32", "v=v", lambda a: a)
_row("RPCMOV", "control", "v=v", lambda a: a)
_row("SEL USEL", "int32", "v=vvp", s.select)
_row("IMAD UIMAD", "imul32", "u=uuu", s.multiply_add)
_row("IMAD.MOV UIMAD.MOV", "imul32", "u=..u", lambda a: a)
_row("IMAD.X UIMAD.X", "imul32", "u=uuup", lambda a, b, c, carry: a * b + c + carry)
for _sign, _factors in (("", "ii"), (".U32", "uu")):
    for _carry, _added in (("", "U"), (".X", "Up")):
        _name = f"{_sign}{_carry}"
        _row(f"IMAD.WIDE{_name} UIMAD.WIDE{_name}", "imul32", f"Uc={_factors}{_added}", s.wide_product)
        _row(f"IMAD.HI{_name} UIMAD.HI{_name}", "imul32", f"uc={_factors}{_added}", s.high_product)
_row("IDP IDP4A IMAD32I IMUL IMUL32I XMAD", "imul32")
_row("BFE BFI CSET I2IP UI2IP IADD2 ICMP ISCADD ISCADD32I ISET VABSDIFF VABSDIFF4 VADD UCLEA", "int32")
_row("CSETP", "int32", "PP=u")

# Logic on bits and on predicates, shifts, and bit counts and permutations.
_row("LOP3 ULOP3", "int32", "uc=muuunq", s.logic_and_test)
_row("LOP3.64 ULOP3.64", "int32", "U?=U")
_row("PLOP3 UPLOP3", "int32", "PP=pppnn", s.predicate_logic)
_row("SHF USHF", "int32", "u=muuu", s.shift)
_row("PRMT UPRMT", "int32", "u=uuu", s.permute)
_row(" ".join(f"{_name}.{_mode}" for _name in ("PRMT", "UPRMT") for _mode in s.OTHER_PERMUTATIONS), "int32")
_row("BMSK UBMSK", "int32", "u=muu", s.bit_mask)
_row("SGXT USGXT", "int32", "u=muu", s.extend_sign)
_row("BREV UBREV", "sfu", "u=u", s.reverse_bits)
_row("FLO UFLO", "sfu", "uc=mt", s.highest_bit)
_row("POPC UPOPC", "sfu", "u=u", np.bitwise_count)
_row("P2R UP2UR", "int32", "u=Bun", lambda bits, kept, mask: kept & np.uint32(~mask & 0xFFFFFFFF) | bits)
_row("R2P UR2UP", "int32", "B=.un", s.picked_bits)
_row("LOP ULOP LOP32I ULOP32I PSET SHL USHL SHR USHR", "int32")
_row("PSETP UPSETP", "int32", "PP=u")

# Transcendentals and conversions.
_row("MUFU", "sfu", "f=mf", s.transcendental)
_row("MUFU.RCP64H MUFU.RSQ64H", "sfu", "u=mu", s.upper_transcendental)
_row("I2F UI2F", "sfu", "r=mt", s.to_float)
_row("I2FP UI2FP", "int32", "r=mt", s.to_float)
_row("F2I UF2I", "sfu", "t=mr", s.to_integer)
_row("FRND", "sfu", "r=mr", s.to_whole)
_row("F2F UF2F", "sfu", "e=g", lambda a: a)
_row("I2F.F16 UI2F.F16 I2FP.F16 I2F.BF16 UI2F.BF16 I2FP.BF16", "sfu", "2=mt", s.to_half)
_row("FRND.F16 FRND.BF16 F2F.F16 UF2F.F16 F2F.BF16 UF2F.BF16", "sfu")
_row("I2I UI2I", "sfu")

# Constants and special registers.
_row("LDC LDCU ULDC", "constant", "w=o", lambda words: words)
_row("S2R", "other", "u=z", lambda value: value)
_row("S2UR", "uniform", "u=z", lambda value: value)
_row("CS2R", "int32", "U=z", s.wide)
_row("CS2R.32", "int32", "u=z", lambda value: value)

# Between the threads of a warp; SHFL and MOVM use the pipe of shared memory.
_row("VOTE", "int32", "uP=mlp", warp.vote)
_row("VOTEU", "uniform", "uP=mlp", warp.vote)
_row("ELECT", "control", "Pu=l", warp.elect)
_row("R2UR", "uniform", "uc=lu", warp.to_uniform)
_row("SHFL", "shared", "Pu=mluuu", warp.shuffle)
_row("MATCH", "sfu", "uc=mlu", warp.match)
_row("MATCH.U64", "sfu", "uc=mlU", warp.match)
_row("REDUX CREDUX", "sfu", "u?=mlu", warp.reduce)
_row("MOVM", "shared")

# Products of matrices; `products` has their registers.
_row("BMMA DMMA HMMA IMMA OMMA QMMA BGMMA HGMMA IGMMA QGMMA", "tensor")
_row("UTCCP UTCHMMA UTCIMMA UTCOMMA UTCQMMA", "tensor", "=u")

# Shared, global and local memory.
_row("ATOMS", "shared", "w?=w", kind="atomic")
_row("LDS", "shared", "w?=u", kind="load")
_row("LDSM", "shared", "x?=u", kind="load")
_row("REDAS STAS STS", "shared", "=w", kind="store")
_row("STSM", "shared", "=x", kind="store")
_row("ATOM ATOMG", "global", "w?=w", kind="atomic")
_row("LD LDG", "global", "w?=u", kind="load")
_row("LD.ENL2 LDG.ENL2", "global", "ww=u", kind="load")  # 256 bits; `program.wide_slots` has the registers
_row("LDGSTS", "global", "=u", kind="copy")
_row("QSPC", "other", "c=u")  # whether a generic address is one of shared (.S) or local (.D) memory
_row("RED REDG", "global", "=w", kind="reduction")
_row("ST STG", "global", "=w", kind="store")
_row("UTMALDG", "global", "=u", kind="box load")  # boxes of tensors between global and shared memory
_row("UTMAREDG UTMASTG", "global", "=u", kind="box store")
_row("UBLKCP UBLKRED", "shared", "=u", kind="box store")  # to another block of the cluster
_row("UBLKCP.G", "global", "=u", kind="box load")  # or, as UBLKCP.G.S, a store: of bytes that a register has
_row("UBLKRED.G", "global", "=u", kind="box store")
_row("LDL", "local", "w?=u", kind="load")
_row("STL", "local", "=w", kind="store")

# Textures and surfaces.
_row("SUATOM SULD TEX TLD TLD4 TMML TXD TXQ", "texture")
_row("SURED SUST", "texture", "=u")

# Barriers and control.
_row("BAR", "barrier", "=u", kind="meeting")
_row("B2R.RESULT", "other", "uc=u", lambda count: (count, count != 0))
_row("BMOV", "control")
_row("BSYNC WARPSYNC", "control", "=u", kind="meeting")
_row("BRA CALL JMP", "control", "=u", kind="branch")
_row("BRX BRXU JMX JMXU", "control", "=u", kind="indirect branch")
_row("EXIT RET", "control", "=u", kind="end")
_row("BPT BREAK BSSY ENDCOLLECTIVE KILL NANOSLEEP NOP PREEXIT YIELD", "control", "=u")

# Issue only: fences, asynchronous copies, tensor memory. Requests succeed at once, and copies are complete
# when they are waited for; `dse.source.nvidia.execute.waiting` checks that each wait has a sender.
_row("SYNCS USETMAXREG", "other", "b=")
_row("SYNCS.EXCH.64", "other", "b=uU")
_row("SYNCS.PHASECHK USETMAXREG.TRY_ALLOC", "other", "b=", lambda: s.TRUE)
_row("UTCATOMSWS", "other", "uc=", lambda: (s.ZERO, s.TRUE))
_row("ACQSHMINIT B2R GETLMEMBASE LDGMC LEPC PIXLD SETLMEMBASE UCGABAR_GET", "other")
_row(
    "ACQBULK ARRIVES CCTL CCTLL CCTLT CGAERRBAR DEPBAR ERRBAR FENCE LDGDEPBAR MEMBAR PMTRIG R2B",
    "other",
    "=u",
)
_row("SETCTAID SETMAXREG UBLKPF UCGABAR_ARV UCGABAR_SET UCGABAR_WAIT UVIRTCOUNT", "other", "=u")
_row("UGETNEXTWORKID", "other", "=u")  # no block is left: each does its own work
_row("UTMACCTL UTMACMDFLUSH UTMAPF UTCBAR UTCSHIFT WARPGROUP WARPGROUPSET", "other", "=u")
_row("LDT LDTM", "other", "y?=uy")
_row("STT STTM", "other", "=uy")

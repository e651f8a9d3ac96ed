"""The opcodes of NVIDIA machine code since Turing: the pipe that each one keeps busy, and which operands it
writes, and how many registers wide. What they compute is in `semantics`.

Source: the instruction set tables of NVIDIA's CUDA binary utilities; pipes after Nsight Compute's.
"""

from dse.cuda.sass.operands import Operand

PIPES = (
    "fp32",
    "fp16",
    "fp64",
    "int32",  # adds, logic, compares, selections and moves; of floats too
    "imul32",  # IMAD, also where it only moves, adds or shifts
    "sfu",  # transcendentals, conversions, bit counts
    "tensor",
    "uniform",  # once for a warp
    "shared",  # shuffles too
    "global",
    "local",
    "constant",  # loads; a constant as operand takes no instruction
    "texture",
    "barrier",
    "control",  # issue only
    "other",  # issue only: special registers, fences
)

_PIPE = {
    "fp32": "FADD FADD2 FADD32I FFMA FFMA2 FFMA32I FMUL FMUL2 FMUL32I FSWZADD",
    "fp16": "HADD2 HADD2_32I HFMA2 HFMA2_32I HMUL2 HMUL2_32I",
    "fp64": "DADD DFMA DMUL DSETP",
    "int32": "BFE BFI BMSK CS2R CSET CSETP FCHK FMNMX FMNMX3 FSEL FSET FSETP F2FP HMNMX2 HSET2 HSETP2 I2FP"
    " I2IP IABS IADD IADD2 IADD3 IADD32I ICMP IMNMX ISCADD ISCADD32I ISET ISETP LEA LOP LOP3"
    " LOP32I MOV MOV32I P2R PLOP3 PRMT PSET PSETP R2P SEL SGXT SHF SHL SHR VABSDIFF VABSDIFF4 VADD"
    " VHMNMX VIADD VIADDMNMX VIMNMX VIMNMX3 VOTE",
    "imul32": "IDP IDP4A IMAD IMAD32I IMUL IMUL32I XMAD",
    "sfu": "BREV CREDUX F2F F2I FLO FRND I2F I2I MATCH MUFU POPC REDUX",
    "tensor": "BMMA DMMA HMMA IMMA OMMA QMMA BGMMA HGMMA IGMMA QGMMA WARPGROUP",
    "uniform": "R2UR S2UR UBMSK UBREV UCLEA UF2F UF2FP UF2I UFADD UFFMA UFLO UFMNMX UFMUL UFSEL UFSET UFSETP"
    " UI2F UI2FP UI2I UI2IP UIABS UIADD3 UIMAD UIMNMX UISETP ULEA ULOP ULOP3 ULOP32I UMOV UP2UR"
    " UPLOP3 UPOPC UPRMT UPSETP UR2UP USEL USGXT USHF USHL USHR UVIADD UVIADDMNMX UVIMNMX VOTEU",
    "shared": "ATOMS LDS LDSM SHFL STS STSM MOVM",
    "global": "ATOM ATOMG LD LDG LDGSTS RED REDG ST STG",
    "local": "LDL STL",
    "constant": "LDC LDCU ULDC",
    "texture": "SUATOM SULD SURED SUST TEX TLD TLD4 TMML TXD TXQ",
    "barrier": "BAR",
    "control": "BMOV BPT BRA BREAK BRX BRXU BSSY BSYNC CALL ENDCOLLECTIVE EXIT JMP JMX JMXU KILL NANOSLEEP"
    " NOP RET WARPSYNC YIELD ELECT PREEXIT",
    "other": "ACQBULK ACQSHMINIT ARRIVES B2R CCTL CCTLL CCTLT CGAERRBAR DEPBAR ERRBAR FENCE GETLMEMBASE"
    " LDGDEPBAR LDGMC LEPC MEMBAR PIXLD PMTRIG R2B S2R SETCTAID SETLMEMBASE SETMAXREG SYNCS UBLKCP"
    " UBLKPF UCGABAR_ARV UCGABAR_WAIT USETMAXREG UTMACCTL UTMACMDFLUSH UTMALDG UTMAPF UTMAREDG"
    " UTMASTG WARPGROUPSET",
}
PIPE = {opcode: pipe for pipe, opcodes in _PIPE.items() for opcode in opcodes.split()}

FP32_OPERATIONS = dict.fromkeys(
    ["FADD", "FADD32I", "FMUL", "FMUL32I", "FFMA", "FFMA32I", "FSWZADD"], 1
) | dict.fromkeys(["FADD2", "FMUL2", "FFMA2"], 2)  # of one thread; a multiply-add is one
LOADS = frozenset(["LD", "LDG", "LDS", "LDL", "LDSM", "ATOM", "ATOMG", "ATOMS"])
STORES = frozenset(["ST", "STG", "STS", "STL", "STSM", "RED", "REDG"])
ATOMICS = frozenset(["ATOM", "ATOMG", "ATOMS", "RED", "REDG"])
BRANCHES = frozenset(
    ["BRA", "BRX", "BRXU", "CALL", "EXIT", "JMP", "JMX", "JMXU", "RET"]
)  # after which a basic block ends

_NO_DESTINATION = (
    STORES
    | frozenset(_PIPE["control"].split()) - {"BMOV", "ELECT"}
    | frozenset(
        [
            "BAR",
            "LDGSTS",
            "R2P",
            "DEPBAR",
            "LDGDEPBAR",
            "MEMBAR",
            "ERRBAR",
            "CCTL",
            "CCTLL",
            "CCTLT",
            "FENCE",
            "CGAERRBAR",
            "ACQBULK",
            "ARRIVES",
            "PMTRIG",
            "R2B",
            "SETCTAID",
            "SUST",
            "SURED",
            "USETMAXREG",
            "UTMALDG",
            "UTMASTG",
            "UBLKCP",
            "UTMACCTL",
            "UTMACMDFLUSH",
        ]
    )
)
_TWO_DESTINATIONS = frozenset(
    [
        "ISETP",
        "FSETP",
        "DSETP",
        "HSETP2",
        "UISETP",
        "UFSETP",
        "PSETP",
        "UPSETP",
        "PLOP3",
        "UPLOP3",
        "CSETP",
        "SHFL",
        "ELECT",
    ]
)
_FP64 = frozenset(["DADD", "DMUL", "DFMA", "DMMA"])
_WIDE_MODIFIED = frozenset(
    ["MOV", "UMOV", "SEL", "USEL", "IADD", "UIADD3", "IADD3", "LOP3"]
)  # pairs if modified by .64
_DATA = LOADS | frozenset(["LDC", "LDCU", "ULDC"])


def destinations(opcode: str, operands: tuple[Operand, ...]) -> int:
    """How many of the first operands are written.

    Most instructions write their first operand. A carry or a test goes to predicates before it (LOP3) or
    behind it (IADD3), which are plain; predicates that are read come after the other sources.
    """
    kinds = [operand.kind for operand in operands]
    if opcode in _NO_DESTINATION or not operands:
        return 0
    if opcode in _TWO_DESTINATIONS:
        return 2
    if opcode == "FCHK":
        return 1
    if opcode in ("VOTE", "VOTEU"):
        return 2 if kinds[0] == "register" else 1
    count = 1
    if kinds[0] == "predicate" and len(kinds) > 1 and kinds[1] == "register":
        return 2
    while (
        count < len(kinds) and kinds[count] == "predicate" and not operands[count].negate and opcode != "SEL"
    ):
        count += 1
    return count


def data_words(modifiers: tuple[str, ...]) -> int:
    """Registers that one thread loads or stores."""
    return next((int(modifier) // 32 for modifier in modifiers if modifier in ("64", "128", "256")), 1)


def data_bytes(opcode: str, modifiers: tuple[str, ...]) -> int:
    """Bytes that one thread loads or stores."""
    if opcode in ("LDSM", "STSM"):
        return 4 * _matrices(modifiers)
    narrow = {"U8": 1, "S8": 1, "U16": 2, "S16": 2}
    return next((narrow[modifier] for modifier in modifiers if modifier in narrow), 4 * data_words(modifiers))


def widths(opcode: str, modifiers: tuple[str, ...], sources: int) -> tuple[int, list[int]]:
    """Registers of the (first) destination, and of each source operand."""
    to, of = 1, [1] * sources
    if opcode in _DATA:
        to = _matrices(modifiers) if opcode == "LDSM" else data_words(modifiers)
        of = [to if opcode[:4] == "ATOM" else 1] * sources
    elif opcode in STORES:
        of = [data_words(modifiers)] * sources
    elif opcode in _FP64:
        to, of = 2, [2] * sources
    elif opcode == "DSETP" or (opcode in ("ISETP", "UISETP") and {"U64", "S64"} & set(modifiers)):
        of = [2] * sources
    elif opcode in ("IMAD", "UIMAD") and "WIDE" in modifiers:
        to, of = 2, [1, 1, *[2] * (sources - 2)]
    elif opcode in ("IMAD", "UIMAD") and "HI" in modifiers:
        of = [1, 1, *[2] * (sources - 2)]
    elif opcode in ("F2F", "I2F", "F2I", "FRND", "UI2F", "UF2I", "UF2F"):
        to, of = (
            _conversion(opcode.removeprefix("U"), modifiers),
            [_converted(opcode.removeprefix("U"), modifiers)],
        )
    elif opcode in _WIDE_MODIFIED and "64" in modifiers:
        to, of = 2, [2] * sources
    elif opcode == "CS2R":
        to = 1 if "32" in modifiers else 2
    elif opcode in ("FADD2", "FMUL2", "FFMA2"):
        to, of = 2, [2] * sources
    elif opcode.endswith("MMA") and opcode != "DMMA":
        to, of = 4, [4] * sources
    return to, of


def _matrices(modifiers: tuple[str, ...]) -> int:
    return next((int(modifier) for modifier in modifiers if modifier in ("2", "4")), 1)


def _conversion(opcode: str, modifiers: tuple[str, ...]) -> int:
    """Registers that a conversion writes: the first type named, or the only one where it is of that kind."""
    first = modifiers[0] if modifiers else ""
    if opcode == "F2I":
        return 2 if {"U64", "S64"} & set(modifiers) else 1
    return 2 if first == "F64" else 1


def _converted(opcode: str, modifiers: tuple[str, ...]) -> int:
    """Registers that it reads."""
    if opcode == "I2F":
        return 2 if {"U64", "S64"} & set(modifiers) else 1
    if opcode == "F2I":
        return 2 if "F64" in modifiers else 1
    return 2 if "F64" in modifiers[1:] or (opcode == "FRND" and "F64" in modifiers) else 1

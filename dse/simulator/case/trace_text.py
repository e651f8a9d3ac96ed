"""Read an instruction trace of a warp, in the disassembler's syntax for sm_13, with loops rolled.

```
.kernel matmul_abt
.block 8                              // warps of a block, at most; optional

/*0098*/ GLD.U32 R8, global14[R4];    // a comment; in words NAME=VALUE, the pattern of the addresses
.repeat 10                            // what follows up to .end
    FMAD32 R0, g[A2+0x1], R10, R0;    // stride=64
.end
```

    line        = [ directive | instruction ] [ "//" { NAME=VALUE | word } ]
    directive   = ".kernel" name | ".block" warps | ".repeat" times | ".end"
    instruction = [ "@" flag ] opcode { "." modifier } [ operand { "," operand } ] [ ";" ]

Operands are those of a listing: registers (`R1`, `R0L`, `A1`, `C0`), shared memory and parameters (`g[...]`,
`s[...]`), constants (`c[...]`), `global14[...]`, `local[...]`, numbers. The first one is written, except by
stores, branches and barriers; the others, and registers in brackets, are read. `.U64` and `.U128` (S, B, F)
are two and four registers, and doubles are pairs. Dependences are through registers, not through memory.
`/* ... */` may be anywhere.

A listing lacks the addresses of a warp and its active lanes. Comments state them:

- `stride`: bytes from one lane's address to the next one's. By default an access is coalesced, free of
  conflicts, or to one address if it has no register;
- `ways`: most words of one bank that a half-warp needs, for shared addresses without a stride;
- `transactions`: of 32 bytes, of a warp, for global addresses without a stride;
- `pitch`: bytes from one warp's addresses to the next one's, by default those of a whole warp;
- `lanes`: number of active lanes, 32 by default.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dse.core.files import read_text
from dse.errors import DseError, one_of
from dse.simulator.case.program import Loop, executed
from dse.simulator.case.trace import Trace, TraceAccess, TraceInstruction

FILE = "trace.sass"  # beside a kernel.toml

_OPCODES = {  # without modifiers, and without the 32 and I of short and immediate forms
    "int_add": "IADD ISUB SHL SHR LOP ISET IMIN IMAX ISAD I2I I2F F2I F2F FSET FMIN FMAX SEL ADA R2A A2R "
    "R2C C2R S2R MVI MVC NOP BRA BRX BRK CAL RET EXIT SSY JOIN PBK",
    "int_mul16": "IMUL",
    "int_mad16": "IMAD",
    "float_add": "FADD",
    "float_mul": "FMUL",
    "float_mad": "FMAD",
    "double_add": "DADD DMIN DMAX DSET",
    "double_mul": "DMUL",
    "double_fma": "DFMA",
    "special": "RCP RSQ SIN COS EX2 LG2 RRO",
    "move": "MOV G2R R2G",
    "load": "GLD LLD",
    "store": "GST LST",
    "barrier": "BAR",
}
_KIND = {opcode: kind for kind, opcodes in _OPCODES.items() for opcode in opcodes.split()}
_BRANCHES = ("BRA", "BRX", "BRK", "CAL", "RET", "EXIT", "SSY", "JOIN", "PBK", "NOP")
_DIRECTIVES = (".kernel", ".block", ".repeat", ".end")
_PATTERN = {"stride": 0, "pitch": 0, "ways": 1, "transactions": 1, "lanes": 1}  # with the smallest values
_INSTRUCTION = re.compile(
    r"(?:@!?(?P<flag>\S+)\s+)?(?P<opcode>[A-Z][A-Z0-9]*)(?P<modifiers>(\.[A-Za-z0-9_]+)*)\b"
)
_REGISTER = re.compile(r"\b([RAC])(\d+)[LH]?\b")
_OPERAND = re.compile(r"[-~|!]*\w[\w.]*+\|?(?:\s*\[[^\[\]]*\]){0,2}[\w.]*(?:\s*\([\w.]+\))?")
MOST_BYTES = 1 << 24  # of a trace
MOST_LOOPS = 8  # nested
_DIGITS = 4  # of a register
_SHARED = re.compile(r"\b[gs]\s*\[([^\]]*)\]")


def load(path: Path | str) -> Trace:
    """Read and check a trace file.

    **Raises:** DseError, one line with file, line, what was found and allowed.
    """
    path = Path(path)
    return parse(read_text(path, MOST_BYTES), str(path), path.parent.name if path.name == FILE else path.stem)


def parse(text: str, where: str = "trace", name: str = "trace") -> Trace:
    """Read a trace from its text.

    **Raises:** DseError that starts with `where` and the number of the line.
    """
    without_comments = re.sub(
        r"/\*.*?\*/", lambda comment: re.sub(r"[^\n]", " ", comment[0]), text, flags=re.DOTALL
    )
    listing = _Listing(name)
    for number, line in enumerate(without_comments.splitlines(), 1):
        try:
            listing.read(line, number)
        except DseError as error:
            raise DseError(f"{where}:{number}: {error}") from None
    if listing.open_loops:
        raise DseError(f"{where}:{listing.open_loops[-1][2]}: found .repeat without .end, expected both")
    if not listing.lines:
        raise DseError(f"{where}: found no instruction, expected at least one")
    loops = tuple(loop for loop in listing.loops if loop.trips > 1)
    instructions = tuple(
        replace(line.instruction, needs=tuple(sorted(js)))
        for line, js in zip(listing.lines, _needs(listing.lines, loops), strict=True)
    )
    return Trace(listing.name, instructions, loops, listing.block)


@dataclass(frozen=True)
class _Line:
    """An instruction and its registers."""

    instruction: TraceInstruction
    reads: frozenset[str]
    writes: frozenset[str]


@dataclass
class _Listing:
    """The part of a listing that has been read."""

    name: str
    block: int | None = None
    lines: list[_Line] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    open_loops: list[tuple[int, int, int]] = field(default_factory=list)  # first instruction, trips, line

    def read(self, line: str, number: int) -> None:
        """Read one line: an instruction, a directive, or neither."""
        code, _, comment = line.partition("//")
        code, pattern = code.strip().removesuffix(";").strip(), _pattern(comment)
        if code.startswith("."):
            self._directive(code, number)
        elif code:
            self.lines.append(_line(code, pattern))
        elif pattern:
            raise DseError(f"found {next(iter(pattern))} on its own, expected an instruction before it")

    def _directive(self, code: str, number: int) -> None:
        match code.split():
            case [".kernel", name]:
                self.name = name
            case [".block", count]:
                self.block = _whole(count, ".block", 1)
            case [".repeat", count]:
                if len(self.open_loops) == MOST_LOOPS:
                    raise DseError(f"found .repeat within {MOST_LOOPS} others, expected fewer")
                self.open_loops.append((len(self.lines), _whole(count, ".repeat", 1), number))
            case [".end"]:
                if not self.open_loops:
                    raise DseError("found .end, expected a .repeat before it")
                first, trips, _ = self.open_loops.pop()
                if first == len(self.lines):
                    raise DseError("found .end, expected an instruction since .repeat")
                self.loops.append(Loop(first, len(self.lines), trips))
            case [directive, *_]:
                raise DseError(f"found {code!r}, {one_of(directive, _DIRECTIVES)}")


def _pattern(comment: str) -> dict[str, int]:
    """Read the words NAME=VALUE of a comment."""
    values = {}
    for name, value in re.findall(r"(\S+)=(\S+)", comment):
        if name not in _PATTERN:
            raise DseError(f"found {name!r} with a value, {one_of(name, _PATTERN)}")
        values[name] = _whole(value, name, _PATTERN[name])
    if values.get("lanes", 32) > 32:
        raise DseError(f"lanes: found {values['lanes']}, expected 1 to 32")
    return values


def _line(code: str, pattern: dict[str, int]) -> _Line:
    head = _INSTRUCTION.match(code)
    if head is None:
        raise DseError(f"found {code!r}, expected an opcode such as FADD32, and operands")
    opcode, modifiers = head["opcode"], head["modifiers"].upper().split(".")[1:]
    stem = opcode if opcode in _KIND else re.sub(r"(32)?I?$", "", opcode)
    if stem not in _KIND:
        raise DseError(f"found opcode {opcode!r}, {one_of(opcode, _KIND)}")
    kind, operands = _KIND[stem], _operands(code[head.end() :])
    wide = _wide(modifiers, double=kind.startswith("double"))
    access = _access(kind, operands, wide, modifiers, pattern)

    writes: set[str] = {register for register in modifiers if re.fullmatch(r"C\d", register)}
    reads = _registers([head["flag"] or ""])
    sources = operands
    if operands and kind not in ("store", "barrier") and stem not in _BRANCHES and "[" not in operands[0]:
        writes |= _registers(operands[:1], wide)
        sources = operands[1:]
    elif operands and operands[0].startswith("o"):  # the result is discarded
        sources = operands[1:]
    for operand in sources:  # addresses are single registers
        reads |= _registers([operand], 1 if "[" in operand else wide if kind != "load" else 1)
    return _Line(
        TraceInstruction(kind, text=code, lanes=pattern.get("lanes", 32), access=access),
        frozenset(reads),
        frozenset(writes),
    )


def _operands(text: str) -> list[str]:
    # Commas in brackets are masked: searching for the bracket's end from each comma would be quadratic.
    masked = re.sub(r"\[[^\[\]]*\]", lambda memory: memory[0].replace(",", "\0"), text)
    operands = [part.strip().replace("\0", ",") for part in masked.split(",")] if text.strip() else []
    for operand in operands:
        if not _OPERAND.fullmatch(operand):
            raise DseError(f"found operand {operand!r}, expected a register, memory in brackets, or a number")
    return operands


def _bits(modifiers: Iterable[str]) -> list[int]:
    """Return the widths that modifiers name, such as 64 of U64."""
    widths = (re.fullmatch(r"[USBF](\d{1,3})", modifier) for modifier in modifiers)
    return [int(width[1]) for width in widths if width]


def _wide(modifiers: Iterable[str], double: bool) -> int:
    """Return the number of registers of an operand."""
    bits = _bits(modifiers)
    return 2 if double else max(1, max(bits, default=32) // 32)


def _access(
    kind: str, operands: Sequence[str], wide: int, modifiers: Sequence[str], pattern: dict[str, int]
) -> TraceAccess | None:
    """Return the access to memory, if there is one."""
    keys = [name for name in pattern if name != "lanes"]
    shared = [match[1] for match in map(_SHARED.search, operands) if match]
    bits = _bits(modifiers)
    if kind in ("load", "store"):
        if not any("[" in operand for operand in operands):
            raise DseError(f"found {', '.join(operands) or 'no operand'}, expected one such as global14[R1]")
        _none_of(keys, ("ways",), "an access to global memory")
        size = max(1, bits[0] // 8) if bits else 4
        stride = pattern.get("stride", size)
        return TraceAccess("global", size, stride, pattern.get("transactions"), pattern.get("pitch"))
    if shared and kind != "barrier":
        _none_of(keys, ("transactions", "pitch"), "an access to shared memory")
        by_register = any(_REGISTER.search(address) for address in shared)
        size = max(1, min(bits) // 8) if bits and kind == "move" else 4 * wide
        stride = pattern.get("stride", size if by_register else 0)
        return TraceAccess("shared", size, stride, pattern.get("ways"))
    _none_of(keys, keys, "an instruction without access to memory")
    return None


def _none_of(fields: Sequence[str], wrong: Sequence[str], what: str) -> None:
    for name in fields:
        if name in wrong:
            raise DseError(f"found {name} with {what}, expected none")


def _registers(operands: Sequence[str], wide: int = 1) -> set[str]:
    """Return the names of registers: that of a half is the whole one, a wide operand has several."""
    named = [name for operand in operands for name in _REGISTER.findall(operand)]
    for kind, n in named:
        if len(n) > _DIGITS:
            raise DseError(f"found the register {kind}{n}, expected a number of at most {_DIGITS} digits")
    registers = {(kind, int(n)) for kind, n in named}
    return {f"{kind}{n + k}" for kind, n in registers for k in range(wide if kind == "R" else 1)}


def _needs(lines: Sequence[_Line], loops: Sequence[Loop]) -> list[set[int]]:
    """Return for each instruction the latest earlier writers of its operands.

    Loops are traversed twice, so that the second pass finds writers in the previous iteration.
    """
    needs: list[set[int]] = [set() for _ in lines]
    written: dict[str, int] = {}
    nested = sorted(loops, key=lambda loop: (loop.first, -loop.stop))
    for i in executed(0, len(lines), nested, 2):
        needs[i] |= {written[name] for name in lines[i].reads if name in written}
        written.update(dict.fromkeys(lines[i].writes, i))
    return needs


def _whole(text: str, name: str, least: int) -> int:
    try:
        value = int(text.rstrip(",;"), 0)
    except ValueError:
        raise DseError(f"{name}: found {text!r}, expected a whole number") from None
    if not least <= value < 2**31:
        raise DseError(f"{name}: found {text}, expected {least} or more, and below 2^31")
    return value

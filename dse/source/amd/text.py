"""Parse AMDGCN assembly by clang: one kernel's instructions, labels and resources.

Source of the syntax: LLVM, "User Guide for AMDGPU Backend" and "AMDGPU Instruction Syntax" (LLVM 20).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from dse.core.commas import split
from dse.errors import DseError

_ENCODING = re.compile(r"_(?:e32|e64|dpp8|dpp|sdwa|e64_dpp)$")
_LOC = re.compile(r"\.loc\s+\d+ (\d+) \d+.*?; (.*)")
_PLACE = re.compile(
    r"(?<!\S)(\S+?):(\d+):\d+"
)  # only where a word begins, since long words would be scanned repeatedly
_NUMBER = re.compile(r"-?\d+$")


@dataclass(frozen=True, eq=False)
class Instruction:
    """One instruction; of two issued together, `second` is the other."""

    index: int
    opcode: str  # without encoding: v_add_f32, not v_add_f32_e32
    operands: tuple[str, ...]
    modifiers: Mapping[str, str]  # "offset" → "16"; those without a value → ""
    line: int | None  # of the kernel's source
    second: "Instruction | None" = None

    def __str__(self) -> str:
        written = " ".join(
            [", ".join(self.operands), *(f"{k}:{v}" if v else k for k, v in self.modifiers.items())]
        )
        text = f"{self.opcode} {written}".strip()
        return f"{text} :: {self.second}" if self.second else text


@dataclass(frozen=True)
class KernelArgument:
    """An argument, by the user or the runtime, in the kernel's argument segment."""

    offset: int  # bytes
    size: int
    kind: str  # as in the metadata: "global_buffer", "by_value", "hidden_block_count_x", ...


@dataclass(frozen=True)
class Listing:
    """One kernel's machine code, with the numbers of its metadata."""

    name: str
    target: str  # "gfx90a"
    wave_size: int
    instructions: tuple[Instruction, ...]
    labels: Mapping[str, int]  # index of the next instruction
    vgprs: int  # of a lane, including accumulation registers
    sgprs: int  # of a wave
    vgpr_spills: int
    lds_bytes: int  # of a block, stated in the source
    scratch_bytes: int  # of a lane
    kernarg_bytes: int
    arguments: tuple[KernelArgument, ...]  # those of the runtime are last
    directives: Mapping[str, int]  # of .amdhsa_kernel, without `.amdhsa_`
    symbols: Mapping[str, bytes] = field(default_factory=dict)  # variables in memory; b"" if not known
    occupancy: int = 0  # waves of a SIMD, by registers and LDS, according to the compiler; 0: not stated


def parse(listing: str, kernel: str | None = None) -> Listing:
    """Parse one kernel of an assembly text, by name, else the only one.

    **Raises:** DseError if the text has no such kernel, or is not AMDGCN by clang, since a source may contain
    inline assembly.
    """
    try:
        return _parse(listing.splitlines(), kernel)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise DseError(f"assembly: cannot read: {type(error).__name__}: {error}") from None


def _parse(lines: Sequence[str], kernel: str | None) -> Listing:
    targets = (match[1] for line in lines if ".amdgcn_target" in line and (match := _TARGET.search(line)))
    target = next(targets, "")
    kernels = _metadata(lines)
    if not target or not kernels:
        raise DseError(
            "assembly: found no .amdgcn_target or no kernel's metadata, expected AMDGCN text of clang"
        )
    names = [str(description[".name"]) for description in kernels]
    if kernel is None and len(kernels) == 1:
        kernel = names[0]
    if kernel not in names:
        raise DseError(f"assembly: found kernels {', '.join(names)}, expected {kernel or 'description only'}")
    numbers = kernels[names.index(kernel)]
    instructions, labels = _code(lines, kernel)
    stated = _directives(lines, kernel)
    scratch_bytes = _int(numbers, ".private_segment_fixed_size", MOST_SCRATCH)
    if scratch_bytes and stated.get("user_sgpr_private_segment_buffer"):  # otherwise the registers are free
        instructions = tuple(_with_scratch(instructions))
    return Listing(
        name=kernel,
        target=target,
        wave_size=_int(numbers, ".wavefront_size", 64, least=32),
        instructions=instructions,
        labels=labels,
        vgprs=_int(numbers, ".vgpr_count", MOST_REGISTERS),
        sgprs=_int(numbers, ".sgpr_count", MOST_REGISTERS),
        vgpr_spills=_int(numbers, ".vgpr_spill_count", MOST_SCRATCH),
        lds_bytes=_int(numbers, ".group_segment_fixed_size", MOST_LDS),
        scratch_bytes=scratch_bytes,
        kernarg_bytes=_int(numbers, ".kernarg_segment_size", MOST_ARGUMENTS),
        arguments=tuple(_arguments(numbers.get(".args", []))),
        directives=stated,
        symbols=_symbols(lines),
        occupancy=_occupancy(lines, kernel),
    )


_TARGET = re.compile(r'-(gfx[0-9a-f]{3,4})(?:[:"]|$)')

# Limits above those of any GPU.
MOST_REGISTERS, MOST_LDS, MOST_ARGUMENTS = 1024, 1 << 20, 1 << 16
MOST_SCRATCH = 1 << 24  # bytes of a lane


def _int(numbers: Mapping[str, object], name: str, most: int, least: int = 0) -> int:
    value = int(str(numbers.get(name, 0)))
    if not least <= value <= most:
        raise DseError(f"assembly: {name}: found {value}, expected {least} to {most:,}")
    return value


def _arguments(items: object) -> Iterator[KernelArgument]:
    if not isinstance(items, list):
        raise DseError("assembly: .args: found no list, expected one")
    for item in items:
        offset, size = (_int(item, name, MOST_ARGUMENTS) for name in (".offset", ".size"))
        yield KernelArgument(offset, size, str(item[".value_kind"]))


# Code


def _code(lines: Sequence[str], kernel: str) -> tuple[tuple[Instruction, ...], dict[str, int]]:
    """Return the instructions between a kernel's label and its end, and the indices of its labels."""
    start = next((number for number, line in enumerate(lines) if line.startswith(f"{kernel}:")), None)
    if start is None:
        raise DseError(f"assembly: found no label {kernel}:, expected one")
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    main = _main_file(lines, start)
    line_of: dict[str, int | None] = {}
    line: int | None = None
    for text in lines[start + 1 :]:
        if text.startswith("\t.loc"):
            if text not in line_of:
                line_of[text] = _line(text, main)
            line = line_of[text]
            continue
        if text.startswith((".Lfunc_end", "\t.section")):
            break
        text = text.split(";", 1)[0].strip()
        if not text or (text[0] == "." and not text.endswith(":")):
            continue
        if text.endswith(":"):
            labels[text[:-1]] = len(instructions)
            continue
        instructions.append(_instruction(text, len(instructions), line))
    if not instructions:
        raise DseError(f"assembly: {kernel}: found no instructions, expected some")
    return tuple(_with_indices(_with_branches(instructions))), labels


_DISTANCE = re.compile(r"\((\.L\w+)-(\.L\w+)\)")  # of labels


def _with_branches(instructions: list[Instruction]) -> Iterator[Instruction]:
    """Turn far branches, which take several instructions, into plain ones.

    The compiler makes four instructions: it reads the program counter, adds the two halves of a distance of
    labels, and jumps there. Their cost remains.
    """
    target = ""
    for step in instructions:
        far = [match for operand in step.operands if (match := _DISTANCE.match(operand))]
        if far:
            target = far[0][1]
            operands = tuple("0" if _DISTANCE.match(operand) else operand for operand in step.operands)
            step = replace(step, operands=operands)
        elif step.opcode == "s_setpc_b64" and target:
            step = replace(step, opcode="s_branch", operands=(target,))
        yield step


_INDEXED = ("v_movrels_b32", "v_movreld_b32")  # from, and to, the register at an index
MOST_INDEXED = 32  # registers of an array


def _with_indices(instructions: Iterable[Instruction]) -> Iterator[Instruction]:
    """Give moves by an index their full operands: all registers of the array, and the index.

    **Raises:** DseError if other instructions than moves have an index.
    """
    index, mode = "m0", ""
    for step in instructions:
        if step.opcode == "s_set_gpr_idx_on":
            index, mode = step.operands
        elif step.opcode == "s_set_gpr_idx_off":
            index, mode = "m0", ""
        elif mode and step.opcode == "v_mov_b32" and mode in ("gpr_idx(SRC0)", "gpr_idx(DST)"):
            step = replace(step, opcode=_INDEXED["DST" in mode])
        elif mode and step.opcode.startswith("v_"):
            raise DseError(f"{step}: found {mode}, expected a move of one register at an index")
        if step.opcode in _INDEXED:
            both, at = list(step.operands), 1 - _INDEXED.index(step.opcode)
            first = int(both[at].lstrip("v"))
            both[at] = f"v[{first}:{min(first + MOST_INDEXED, 256) - 1}]"
            step = replace(step, operands=(*both, index))
        yield step


def _main_file(lines: Sequence[str], start: int) -> str:
    """Return the name of the kernel's file: the outermost one of its first locations."""
    for text in lines[start:]:
        if text.startswith("\t.loc") and (match := _LOC.search(text)):
            return PurePath(_PLACE.findall(match[2])[-1][0]).name
    return ""


def _line(text: str, main: str) -> int | None:
    """Return the innermost line of a location in the kernel's own file."""
    match = _LOC.search(text)
    for path, line in _PLACE.findall(match[2]) if match else ():
        if PurePath(path).name == main:
            return int(line) or None
    return None


def _instruction(text: str, index: int, line: int | None) -> Instruction:
    first, _, rest = text.partition(" :: ")
    second = _instruction(rest, index, line) if rest else None
    opcode, _, written = first.partition(" ")
    operands, modifiers = _operands(opcode, written.strip())
    opcode = _ENCODING.sub("", opcode).replace("v_dual_", "v_")
    if opcode.startswith(("buffer_load_", "global_load_")) and "lds" in modifiers:  # as CDNA 3 writes them
        opcode = opcode.replace("load_", "load_lds_", 1)
    return Instruction(index, opcode, operands, modifiers, line, second)


def _with_scratch(instructions: Sequence[Instruction]) -> Iterator[Instruction]:
    """Rename buffer accesses to scratch: those with the initial descriptor of waves, or a copy of it."""
    copies = [step.operands[0] for step in instructions if step.operands[1:] == ("s[0:1]",)]
    starts = [0, *(int(match[1]) for copy in copies if (match := re.match(r"s\[(\d+):", copy)))]
    descriptors = {f"s[{start}:{start + 3}]" for start in starts}
    for step in instructions:
        scratch = step.opcode.startswith("buffer_") and not descriptors.isdisjoint(step.operands[2:3])
        yield replace(step, opcode=f"scratch_{step.opcode}") if scratch else step


_WORDS = ("s_waitcnt", "s_delay_alu", "s_sendmsg", "s_clause")  # their operands are not values


def _operands(opcode: str, written: str) -> tuple[tuple[str, ...], dict[str, str]]:
    if not written:
        return (), {}
    if opcode.startswith(_WORDS):
        return (written,), {}
    parts = written.split(", ")
    if "(" in written:
        parts = [part.strip() for part in split(written, "()[]")]
    last, *words = [parts[-1]] if parts[-1].startswith("hwreg(") else parts[-1].split(" ")
    modifiers: dict[str, str] = {}
    for word in words:
        name, _, value = word.partition(":")
        modifiers[name] = value
    if ":" in last and "[" not in last.split(":")[0] and not last.startswith(("v[", "s[", "a[", "ttmp[")):
        name, _, value = last.partition(":")  # no operand before it
        return tuple(parts[:-1]), {name: value, **modifiers}
    return (*parts[:-1], last), modifiers


# Metadata of the kernel


def _metadata(lines: Sequence[str]) -> list[dict[str, object]]:
    """Parse the metadata's list of kernels, in LLVM's form of YAML."""
    kernels: list[dict[str, object]] = []
    inside = False
    for text in lines:
        stripped = text.strip()
        if stripped == ".amdgpu_metadata":
            inside = True
        elif stripped == ".end_amdgpu_metadata":
            break
        if not inside or ":" not in stripped:
            continue
        depth = len(text) - len(text.lstrip(" "))
        name, _, value = stripped.removeprefix("- ").partition(":")
        value = value.strip().strip("'")
        if depth == 0:
            continue
        if text.startswith("  - "):
            kernels.append({})
        if text.startswith("      - "):
            arguments = kernels[-1].setdefault(".args", [])
            assert isinstance(arguments, list)
            arguments.append({name: value})
        elif depth >= 8:
            arguments = kernels[-1].get(".args")
            if isinstance(arguments, list) and arguments:
                arguments[-1][name] = value
        elif kernels and name != ".args":
            kernels[-1][name] = value
    return [kernel for kernel in kernels if ".name" in kernel]


def _directives(lines: Sequence[str], kernel: str) -> dict[str, int]:
    """Parse the numbers of the kernel's descriptor."""
    numbers: dict[str, int] = {}
    inside = False
    for text in lines:
        words = text.split()
        if words[:2] == [".amdhsa_kernel", kernel]:
            inside = True
        elif inside and words[:1] == [".end_amdhsa_kernel"]:
            break
        elif inside and len(words) == 2 and _NUMBER.match(words[1]):
            numbers[words[0].removeprefix(".amdhsa_")] = int(words[1])
    return numbers


def _symbols(lines: Sequence[str]) -> dict[str, bytes]:
    """Return the initial contents of variables in memory; b"" for those that only the program sets."""
    objects = [text for text in lines if text.startswith("\t.type") and "@object" in text]
    contents = {text.split()[1].split(",")[0]: b"" for text in objects}  # in the order of the text
    parts = list[bytes | int]()  # an int: so many zeros
    for text in lines:
        if text.partition(":")[0] in contents:
            parts = []
        elif match := _DATA.match(text):
            kind, value, written = match.groups()
            number = int(value, 0) if value and value.lstrip("-")[0].isdigit() else 0  # 0: an address
            if kind in _SIZES:
                parts.append((number % 2 ** (8 * _SIZES[kind])).to_bytes(_SIZES[kind], "little"))
            elif written is None:
                parts.append(number)
            else:
                characters = written.encode("latin-1", "replace").decode("unicode_escape", "replace")
                parts.append(characters.encode("latin-1", "replace") + bytes(kind == "asciz"))
        elif text.startswith("\t.size"):
            if any(any(part) for part in parts if isinstance(part, bytes)):
                words = (bytes(part) for part in parts)
                contents[text.split()[1].rstrip(",")] = b"".join(words)
            parts = []
    return contents


_SIZES = {"byte": 1, "short": 2, "long": 4, "quad": 8}
_DATA = re.compile(r'\t\.(byte|short|long|quad|zero|ascii|asciz)\t(?:(-?\w+)|"(.*)")')


def _occupancy(lines: Sequence[str], kernel: str) -> int:
    """Return the waves of a SIMD that the compiler states after the kernel; 0 if not stated.

    **Raises:** DseError if it is a formula, of the functions that the kernel calls.
    """
    reached = textures = False
    for text in lines:
        reached |= text.startswith(f"{kernel}:")
        textures |= reached and "dse_texture" in text
        if reached and text.startswith("; Occupancy:"):
            waves = text.split(":")[1].strip()
            if not waves.isdigit():
                called = "calls by pointer, virtual or recursive ones, expected functions that can be inlined"
                fetched = "textures or surfaces, expected loads and stores of arrays"
                raise DseError(f"{kernel}: found {fetched if textures else called}")
            return int(waves)
    return 0

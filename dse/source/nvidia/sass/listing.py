"""Parse the machine code of kernels as nvdisasm and cuobjdump print it.

Both print one instruction per line, after its address in a comment. A kernel begins with its section
`.text.NAME` in nvdisasm, with `Function : NAME` in cuobjdump; labels may be in between, of nvdisasm also
source lines. Branches name labels or addresses; the parsed ones always addresses.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from dse.core.processes import memory_limited
from dse.errors import DseError
from dse.source.nvidia.sass.elf import reserved_shared_bytes
from dse.source.nvidia.sass.operands import operand

SCOREBOARDS = 6  # of a warp


class Control(NamedTuple):
    """The part of an encoding by which the compiler tells a warp when to issue the next instruction."""

    stall: int  # cycles until then
    signals: int  # the scoreboard, 0 to 5, that is set until the results are there; 7: none
    waits: tuple[int, ...]  # scoreboards that must be clear before

    @staticmethod
    def of(high: int, arch: int) -> "Control | None":
        """Read the control from the higher 64 bits of an instruction; None before Volta, which has others.

        **Source:** Jia et al., arXiv:1804.06826, Sec. 2.1. From bit 41 on: 4 bits of stall, 1 of yield, 3 of
        the scoreboard of results, 3 of that of operands, 6 of scoreboards waited for.
        """
        if arch < 70:
            return None
        bits = high >> 41
        waits = bits >> 11
        return Control(bits & 15, bits >> 5 & 7, tuple([b for b in range(SCOREBOARDS) if waits >> b & 1]))


@dataclass(frozen=True, slots=True)
class SassInstruction:
    """One machine instruction."""

    address: int  # bytes from the kernel's start
    predicate: str  # "@P0", "@!UP1"; "" if always executed
    opcode: str  # with modifiers: "IMAD.WIDE.U32"
    operands: tuple[str, ...]  # as printed; a branch target, or an address of code, as hex: "0x1a0"
    line: int | None  # of the source file that holds the kernel
    control: Control | None = None  # None: unknown


@dataclass(frozen=True)
class Listing:
    """The code of one kernel, including the device functions that it calls."""

    kernel: str  # mangled
    arch: int  # 80 for sm_80
    instructions: tuple[SassInstruction, ...]
    labels: dict[str, int]  # addresses, including that of the kernel's name


def parse(text: str, where: str) -> list[Listing]:
    """Parse the output of `nvdisasm FILE.cubin` or `cuobjdump -sass FILE`, kernel by kernel.

    With nvdisasm's `-gi`, instructions have their source line: of code inlined from another file, the line of
    the call.

    **Raises:** DseError that names `where` and the line, if an instruction cannot be parsed, its label is
    missing, the architecture is not named, or there is no kernel; OverLimit if it takes too much memory.
    """
    with memory_limited(where):
        return _parse(text, where)


def _parse(text: str, where: str) -> list[Listing]:
    arch = None
    readers: list[_KernelReader] = []
    reader: _KernelReader | None = None  # of the current kernel, None in other sections
    for number, line in enumerate(text.splitlines(), 1):
        if match := _ARCH.search(line):
            arch = int(match[1])
        elif match := _KERNEL.match(line):
            if arch is None:
                raise DseError(
                    f"{where}:{number}: architecture: found none, expected .target sm_.. before the code"
                )
            reader = _KernelReader(match[1] or match[2], arch, where)
            readers.append(reader)
        elif _SECTION.match(line):
            reader = None
        elif reader:
            reader.read(line, number)
    if not readers:
        raise DseError(f"{where}: code: found no kernel, expected the text of nvdisasm or cuobjdump -sass")
    return [reader.listing() for reader in readers]


def instructions(text: str, where: str) -> Iterator[SassInstruction]:
    """Parse the output of `nvdisasm -b` for raw code: no kernels, no labels."""
    for number, line in enumerate(text.splitlines(), 1):
        if match := _INSTRUCTION.match(line):
            yield _instruction(match, None, where, number)
        elif _ADDRESS.match(line):
            raise _unreadable(line, where, number)


def resources(text: str, kernel: Listing) -> tuple[int, int]:
    """Find (registers of a thread, static shared memory of a block in bytes) of a kernel in the text.

    **Edges:** if the text does not state the registers, all up to the highest one in an instruction count;
    shared memory that is not stated is 0.
    """
    name = re.escape(kernel.kernel)
    attribute = re.search(_REGISTERS.format(name=name), text)
    section = re.search(_REGISTERS_OF_SECTION.format(name=name), text)
    shared = re.search(_SHARED.format(name=name), text)
    if attribute is not None:
        registers = int(attribute[1], 0)
    elif section is not None:
        registers = int(section[1])
    else:
        named = (
            int(register)
            for instruction in kernel.instructions
            for operand in instruction.operands
            for register in _REGISTER.findall(operand)
        )
        registers = 1 + max(named, default=0)
    if registers > _MOST_REGISTERS:
        problem = f"found {registers}, expected at most {_MOST_REGISTERS}"
        raise DseError(f"{kernel.kernel}: registers: {problem}")
    shared_bytes = int(shared[1], 0) if shared is not None else 0
    return registers, max(0, shared_bytes - reserved_shared_bytes(kernel.arch))


class _KernelReader:
    """Parser of the lines of one kernel. Labels may follow their use, so they are resolved at the end."""

    def __init__(self, kernel: str, arch: int, where: str) -> None:
        self.kernel, self.arch, self.where = kernel, arch, where
        self.instructions: list[SassInstruction] = []
        self.labels: dict[str, int] = {kernel: 0}
        self.waiting: list[str] = []  # labels of the next address
        self.uses: list[tuple[int, int]] = []  # instructions that name labels, and their lines in the text
        self.source = ""  # the kernel's file: that of its first instruction
        self.line: int | None = None
        self.located = False  # whether the line of the next instruction is known

    def read(self, line: str, number: int) -> None:
        """Parse one line of the kernel's text."""
        if match := _INSTRUCTION.match(line):
            instruction = _instruction(match, self.line, self.where, number)
            if self.instructions and instruction.address <= self.instructions[-1].address:
                raise _unreadable(line, self.where, number, " (its address is not above the last)")
            for label in self.waiting:
                self.labels[label] = instruction.address
            self.waiting.clear()
            self.located = False
            if "(" in match[4]:
                self.uses.append((len(self.instructions), number))
            self.instructions.append(instruction)
        elif (match := _ENCODING.match(line)) and self.instructions:
            control = Control.of(int(match[1], 16), self.arch)
            self.instructions[-1] = replace(self.instructions[-1], control=control)
        elif match := _LABEL.match(line):
            self.waiting.append(match[1])
        elif "//##" in line:
            self._locate(line)
        elif _ADDRESS.match(line):
            raise _unreadable(line, self.where, number)

    def _locate(self, line: str) -> None:
        """Set the source line: the first one in the kernel's file, from the innermost call outwards."""
        source_lines = _SOURCE_LINE.findall(line)
        if not self.source and source_lines:
            self.source = source_lines[-1][0]
        for file, number in source_lines:
            if file == self.source and not self.located:
                self.line, self.located = int(number), True

    def listing(self) -> Listing:
        """Return the kernel as parsed so far, with addresses for labels."""
        if not self.instructions:
            raise DseError(f"{self.where}: {self.kernel}: found no instructions, expected some")
        end = self.instructions[-1].address + _spacing(self.instructions)
        for label in self.waiting:
            self.labels[label] = end
        for index, number in self.uses:
            old = self.instructions[index]
            operands = tuple(self._resolved(operand, number) for operand in old.operands)
            self.instructions[index] = replace(old, operands=operands)
        return Listing(self.kernel, self.arch, tuple(self.instructions), self.labels)

    def _resolved(self, operand: str, number: int) -> str:
        """Replace `(.L_x_1) and 32@lo((kernel + .L_x_1@srel)) by addresses; keep names of data."""
        if match := _BRANCH.fullmatch(operand):
            label = match[1]
            if label not in self.labels:
                raise DseError(
                    f"{self.where}:{number}: label: found no {label} in {self.kernel}, expected one"
                )
            return hex(self.labels[label])
        if (match := _CODE_ADDRESS.fullmatch(operand)) and match[2] in self.labels:
            address = self.labels[match[2]]
            return hex(address >> 32 if match[1] == "hi" else address & 0xFFFFFFFF)
        return operand


def _instruction(match: re.Match[str], line: int | None, where: str, number: int) -> SassInstruction:
    """Parse an instruction, whose text is in line `number` of `where`."""
    address, predicate, opcode, text = match.groups()
    operands = _operands(text)
    try:
        for word in operands:
            operand(word)
    except ValueError as error:
        raise _unreadable(match[0], where, number, f" ({error})") from None
    return SassInstruction(int(address, 16), predicate or "", opcode, operands, line)


def _operands(text: str) -> tuple[str, ...]:
    """Split at commas and blanks outside brackets: "R20 `(f)" is two operands."""
    if "(" in text or "{" in text:
        return tuple(_OPERAND.findall(text.split("(*", 1)[0]))  # "(*": nvdisasm lists a branch's targets
    return tuple(text.replace(",", " ").split())


def _spacing(code: list[SassInstruction]) -> int:
    return code[-1].address - code[-2].address if len(code) > 1 else 16


def _unreadable(line: str, where: str, number: int, why: str = "") -> DseError:
    actual = line.strip()[:_SHOWN]
    return DseError(
        f"{where}:{number}: instruction: found {actual!r}{why}, expected '/*address*/ OPCODE operands ;'"
    )


_ARCH = re.compile(r"^\s*(?:\.target\s+sm_|code for sm_|\.headerflags\s.*?EF_CUDA_SM)(\d{1,4})(?!\d)")
_KERNEL = re.compile(r"^\s*(?:\.section\s+\.text\.([^,\s]+)|Function : (\S+))")
_SECTION = re.compile(r"^\s*\.section\s|^//-{5,}")
_LABEL = re.compile(r"^\s*(?!\.text\.)([.$\w]+):\s*$")
_SOURCE_LINE = re.compile(r'"([^"]*)", line (\d{1,9})')
_SHOWN = 200  # characters of a line
_ADDRESS = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/")
# Braces mark instructions issued together before Volta; a comment with the encoding may follow.
_INSTRUCTION = re.compile(
    r"^\s*/\*([0-9a-f]{4,8})\*/\s+(?:\{\s*)?(?:(@!?U?P\w+)\s+)?([A-Z][\w.]*)([^;]*);\s*\}?\s*(?:/\*.*\*/\s*)?$"
)
# The higher half of an encoding; the lower one is in the line above.
_ENCODING = re.compile(r"^\s*/\* 0x([0-9a-f]{16}) \*/\s*$")
_OPERAND = re.compile(r"(?:[^\s,({]|\((?:[^()]|\([^()]*\))*\)|\{[^}]*\})+")
_BRANCH = re.compile(r"`\(([^()]+)\)")
_CODE_ADDRESS = re.compile(r"32@(lo|hi)\(\([^()]+\+ *([.$\w]+)@srel\)\)")
_REGISTER = re.compile(r"\bR(\d+)\b")
_REGISTERS = r"EIATTR_REGCOUNT\n(?:(?!//).*\n)*?.*index@\({name}\)\s*\n.*\.word\s+(0x[0-9a-f]{{1,8}})\b"
_REGISTERS_OF_SECTION = r"\.section\s+\.text\.{name},.*\n\s*\.sectioninfo\s+@\"SHI_REGISTERS=(\d{{1,4}})\b\""
_SHARED = (
    r"\.section\s+\.nv\.shared\.{name},.*\n"
    r"(?:\s*(?:\.sectionflags|\.align|\.nv\.shared).*\n)*\s*\.zero\s+(\d{{1,9}}|0x[0-9a-f]{{1,8}})\b"
)
_MOST_REGISTERS = 255  # of a thread

"""Disassemble machine code with nvdisasm.

Starting nvdisasm takes a quarter of a second of CPU; a kernel's code takes a tenth of that. So one process
disassembles the concatenated code of many kernels as raw code, and its output is split again. Raw code has no
source lines; where they are needed, each kernel takes a process of its own.
"""

import importlib.metadata
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, lru_cache
from itertools import accumulate, groupby
from pathlib import Path

from dse.core.optional import install
from dse.core.processes import OverLimit, ProcessKilled, memory_limited, run, scratch
from dse.errors import DseError
from dse.source.nvidia.sass import elf, listing
from dse.source.nvidia.sass.elf import Binary
from dse.source.nvidia.sass.listing import Control, Listing, SassInstruction


def disassemble(binaries: Sequence[Binary]) -> list[Listing]:
    """Disassemble as `disassemble_each`. **Raises:** also OverLimit, for the first kernel over a limit."""
    listings: list[Listing] = []
    for listed in disassemble_each(binaries):
        if isinstance(listed, OverLimit):
            raise listed
        listings.append(listed)
    return listings


def disassemble_each(binaries: Sequence[Binary]) -> list[Listing | OverLimit]:
    """Disassemble each kernel, in order. No source lines, and no labels but the kernel's own.

    Kernels over a limit have the error instead of a listing.

    **Raises:** DseError if nvdisasm is missing or does not know the architecture or the code, and for code
    whose addresses are known only after loading.
    """
    listings: dict[int, Listing | OverLimit] = {}
    order = sorted(range(len(binaries)), key=lambda index: binaries[index].arch)
    for arch, group in groupby(order, key=lambda index: binaries[index].arch):
        indices = list(group)
        for first in range(0, len(indices), _BATCH):
            batch = indices[first : first + _BATCH]
            listings |= zip(batch, _listed(arch, [binaries[index] for index in batch]), strict=True)
    return [listings[index] for index in range(len(binaries))]


def with_lines(cubin: bytes, kernel: str, where: str) -> Listing:
    """Disassemble one kernel with labels, and with source lines if it was compiled with -lineinfo.

    **Raises:** DseError as `disassemble`, and if the cubin has no such kernel.
    """
    text = _nvdisasm(("-c", "-gi"), cubin, where)
    for code in listing.parse(text, where):
        if code.kernel == kernel:
            encoded = elf.read(cubin, where)[kernel].code
            return replace(
                code, instructions=tuple([_placed(x, 0, encoded, code.arch) for x in code.instructions])
            )
    raise DseError(f"{where}: kernel: found no {kernel}, expected one of {', '.join(elf.read(cubin, where))}")


def _listed(arch: int, binaries: Sequence[Binary]) -> list[Listing | OverLimit]:
    """Disassemble kernels together or, if that meets a limit, one by one."""
    try:
        with memory_limited(binaries[0].kernel):
            return [*_raw(arch, binaries)]
    except OverLimit as error:
        if len(binaries) == 1:
            return [error]
    return [code for binary in binaries for code in _listed(arch, [binary])]


def _raw(arch: int, binaries: Sequence[Binary]) -> list[Listing]:
    """Disassemble kernels of one architecture in one process."""
    for binary in binaries:
        if binary.relocated:
            raise DseError(f"{binary.kernel}: code: found addresses left open for loading, expected none")
    ends = list(accumulate(len(binary.code) for binary in binaries))
    code = b"".join(binary.code for binary in binaries)
    text = _nvdisasm(("-b", f"SM{arch}"), code, binaries[0].kernel)
    pieces: list[list[SassInstruction]] = [[] for _ in binaries]
    piece = 0
    for instruction in listing.instructions(text, binaries[0].kernel):
        while instruction.address >= ends[piece]:
            piece += 1
        encoded = binaries[piece].code
        pieces[piece].append(_placed(instruction, ends[piece] - len(encoded), encoded, arch))
    return [
        Listing(binary.kernel, arch, tuple(instructions), {binary.kernel: 0})
        for binary, instructions in zip(binaries, pieces, strict=True)
    ]


def _placed(instruction: SassInstruction, base: int, code: bytes, arch: int) -> SassInstruction:
    """Return the instruction with its address and branch target relative to `base`, and its control."""
    operands, address = instruction.operands, instruction.address - base
    if operands and instruction.opcode.split(".", 1)[0] in _TARGETS and operands[-1].startswith("0x"):
        operands = (*operands[:-1], hex(int(operands[-1], 16) - base))
    control = Control.of(int.from_bytes(code[address + 8 : address + 16], "little"), arch)
    return SassInstruction(
        address, instruction.predicate, instruction.opcode, operands, instruction.line, control
    )


@lru_cache(maxsize=4)  # the code of a kernel is asked for again with other arguments, and explained
def _nvdisasm(options: tuple[str, ...], code: bytes, where: str) -> str:
    with scratch({"code": code}) as folder:
        path = folder / "code"
        try:
            ended = run([_tool(), *options, path])
        except ProcessKilled as how:
            raise OverLimit(f"{where}: nvdisasm {how}") from None
    if ended.code:
        reason = next(iter(ended.errors.split("\n")), "").replace(str(path), where)
        raise DseError(f"{where}: nvdisasm failed: {reason or ended.code}")
    return ended.output


@cache
def _tool() -> str:
    """Return the path of nvdisasm: in its package, else on the PATH."""
    try:
        files = importlib.metadata.files("nvidia-cuda-nvdisasm") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        path = Path(str(file.locate()))
        if path.stem == "nvdisasm" and os.access(path, os.X_OK):
            return str(path)
    if on_path := shutil.which("nvdisasm"):
        return on_path
    raise DseError(f"nvdisasm: found none, expected {install('cuda')}")


_BATCH = 64  # kernels per process
_TARGETS = frozenset(
    {"BRA", "BRX", "BSSY", "CALL", "JMP", "LEPC", "PBK", "PCNT", "PRET", "RET", "SSY", "CAL", "JCAL"}
)

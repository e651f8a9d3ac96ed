"""Read the kernels of a cubin: registers, memory, parameters, constants, machine code.

A cubin is an ELF file. The code of a kernel is in section `.text.NAME`; attributes are in `.nv.info` (those
that name a symbol) and `.nv.info.NAME`, each a format, a number and a value. NVIDIA does not document them:
formats and numbers are those that nvdisasm prints (as `EIATTR_...`); tests compare the values with ptxas.
"""

import io
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod

from dse.core.optional import install, needs
from dse.errors import DseError
from dse.source.machine.launch import Dimensions


def reserved_shared_bytes(arch: int) -> int:
    """Return the bytes at the start of a block's shared memory that the system has."""
    return 1024 if arch >= 90 else 0


@dataclass(frozen=True)
class Parameter:
    """One argument of a kernel."""

    offset: int  # bytes from the start of constant bank 0
    size: int  # bytes


@dataclass(frozen=True)
class Constant:
    """One `__constant__` variable."""

    name: str  # mangled
    bank: int
    offset: int  # bytes
    size: int  # bytes


@dataclass(frozen=True)
class Binary:
    """One kernel of a cubin."""

    kernel: str  # mangled
    arch: int  # 80 for sm_80
    code: bytes
    relocated: bool  # whether some instructions hold addresses known only after loading
    registers: int  # of a thread
    shared_bytes: int  # of a block: static, without what a launch adds
    stack_bytes: int | None  # of a thread: local arrays, spills, calls; None if unknown due to recursion
    # What a listing does not have.
    parameters: tuple[Parameter, ...] = ()
    banks: Mapping[int, bytes] = field(default_factory=dict)  # constant banks as loaded
    constants: tuple[Constant, ...] = ()
    # By the offset in bank 4 of their addresses; b"": not set.
    variables: Mapping[int, tuple[str, bytes]] = field(default_factory=dict)
    cluster: Dimensions = (1, 1, 1)  # blocks along each dimension


def read(cubin: bytes, where: str) -> dict[str, Binary]:
    """Read the kernels of a cubin, by name, in its order.

    **Raises:** DseError if it is no cubin, or pyelftools is missing.
    """
    with needs("pyelftools", install("cuda")):
        from elftools.common.exceptions import ELFError
        from elftools.elf.elffile import ELFFile

    try:
        elf = ELFFile(io.BytesIO(cubin))
        if elf["e_machine"] != "EM_CUDA":
            raise ELFError("not for CUDA")
        sections = {section.name: section for section in elf.iter_sections()}
        symbols = list(sections[".symtab"].iter_symbols())  # type: ignore[attr-defined]
        names = [symbol.name for symbol in symbols]
        flags, abi = elf["e_flags"], elf["e_ident"]["EI_ABIVERSION"]
        arch = flags >> 8 & 0xFF if abi >= _ABI_ARCH_IN_SECOND_BYTE else flags & 0xFF
        shared_attributes = list(_attributes(sections[".nv.info"].data()))

        def of_symbol(number: int, kernel: str) -> int | None:
            """Return the value of an attribute that names its symbol."""
            for attribute, value in shared_attributes:
                if attribute == number:
                    symbol, figure = struct.unpack("<II", value)
                    if names[symbol] == kernel:
                        return figure
            return None

        banks, constants = _constants(elf, symbols)
        variables = _variables(elf, sections, symbols)
        kernels = {}
        for name, section in sections.items():
            kernel = name.removeprefix(".text.")
            if kernel == name or f".nv.constant0.{kernel}" not in sections:
                continue  # a function without parameter bank is no kernel
            own = list(_attributes(sections[f".nv.info.{kernel}"].data()))
            stack = of_symbol(_MIN_STACK_SIZE, kernel) or of_symbol(_FRAME_SIZE, kernel) or 0
            shared = sections.get(f".nv.shared.{kernel}")
            shared_bytes = shared["sh_size"] if shared else 0
            registers = of_symbol(_REGCOUNT, kernel) or section["sh_info"] >> 24
            cluster = next((struct.unpack("<III", of) for number, of in own if number == _CLUSTER), (1, 1, 1))
            if shared_bytes >= 2**31 or registers > _MOST_REGISTERS or not 0 < prod(cluster) <= _MOST_BLOCKS:
                has = f"{shared_bytes} B of shared memory, {registers} registers, clusters of {cluster}"
                raise ELFError(has)
            relocations = [sections.get(f"{prefix}.text.{kernel}") for prefix in (".rel", ".rela")]
            kernels[kernel] = Binary(
                kernel=kernel,
                arch=arch,
                code=section.data(),
                relocated=any(table is not None and table["sh_size"] for table in relocations),
                registers=registers,
                # From 9.0 on the section begins with memory reserved for the system.
                shared_bytes=max(0, shared_bytes - reserved_shared_bytes(arch)),
                stack_bytes=None if stack == _UNKNOWN_STACK else stack,
                parameters=_parameters(own),
                banks={bank: content for bank, owner, content in banks if owner in ("", kernel)},
                constants=constants,
                variables=variables,
                cluster=cluster,
            )
    except Exception as error:  # of any type: the ELF library does not validate its input
        what = str(error) if isinstance(error, ELFError) else type(error).__name__
        raise DseError(
            f"{where}: found no cubin that can be read ({what}), expected what nvcc -cubin writes"
        ) from None
    return kernels


def _attributes(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the number and value of each: up to two bytes in place, else with a length."""
    position = 0
    while position < len(content):
        form, number, value = struct.unpack_from("<BBH", content, position)
        position += 4
        if form == _SIZED:
            yield number, content[position : position + value]
            position += value
        else:
            yield number, value.to_bytes(2, "little")


def _parameters(attributes: list[tuple[int, bytes]]) -> tuple[Parameter, ...]:
    base = next((struct.unpack_from("<H", value, 4)[0] for n, value in attributes if n == _PARAM_CBANK), 0)
    parameters = {}
    for number, value in attributes:
        if number == _KPARAM_INFO:
            _, ordinal, offset, packed = struct.unpack("<IHHI", value)
            parameters[ordinal] = Parameter(base + offset, packed >> 18)
    return tuple(parameters[ordinal] for ordinal in sorted(parameters))


def _constants(elf, symbols) -> tuple[list[tuple[int, str, bytes]], tuple[Constant, ...]]:
    """Read constant banks as (number, kernel or "" for all, contents), and the variables in them."""
    banks, constants = [], []
    numbers = {}
    for index, section in enumerate(elf.iter_sections()):
        bank, _, kernel = section.name.removeprefix(".nv.constant").partition(".")
        if bank.isdigit() and section.name.startswith(".nv.constant"):
            numbers[index] = int(bank)
            banks.append((int(bank), kernel, section.data()))
    for symbol in symbols:
        if symbol["st_shndx"] in numbers and symbol["st_info"]["type"] == "STT_OBJECT":
            bank = numbers[symbol["st_shndx"]]
            constants.append(Constant(symbol.name, bank, symbol["st_value"], symbol["st_size"]))
    return banks, tuple(constants)


def _variables(elf, sections, symbols) -> dict[int, tuple[str, bytes]]:
    """Read the global variables whose addresses are in bank 4, by offset, and their initial contents."""
    variables = {}
    for prefix in (".rel", ".rela"):
        if table := sections.get(f"{prefix}.nv.constant4"):
            for entry in table.iter_relocations():
                symbol, contents = symbols[entry["r_info_sym"]], b""
                section = symbol["st_shndx"]
                if isinstance(section, int) and elf.get_section(section).name == ".nv.global.init":
                    at = symbol["st_value"]
                    contents = elf.get_section(section).data()[at : at + symbol["st_size"]]
                variables[entry["r_offset"]] = symbol.name, contents
    return dict(sorted(variables.items()))


_MOST_REGISTERS = 255  # of a thread
_MOST_BLOCKS = 64  # of a cluster, beyond what any GPU launches
_SIZED = 4  # format: the value is preceded by its length
_PARAM_CBANK = 0x0A
_FRAME_SIZE = 0x11
_MIN_STACK_SIZE = 0x12
_KPARAM_INFO = 0x17
_REGCOUNT = 0x2F
_CLUSTER = 0x3D
_ABI_ARCH_IN_SECOND_BYTE = 8
_UNKNOWN_STACK = 0xFFFFFFFF

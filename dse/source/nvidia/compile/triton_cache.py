"""Folders of Triton's cache: cubins, or assembly for AMD GPUs, each with Triton's metadata."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from dse.core.files import file_below, is_file, read_bytes, read_text
from dse.errors import DseError
from dse.source.cache import key
from dse.source.contract import Failure, Launched, Passed, Settings
from dse.source.nvidia.compile import nvrtc
from dse.source.nvidia.compile.contract import Compiled
from dse.source.nvidia.compile.triton import (
    CUDA_OPTIONS,
    HIP_OPTIONS,
    OfTriton,
    has_fractions,
    launched_as,
    with_scratch,
)
from dse.source.nvidia.compile.triton_metadata import CompileTarget, Metadata, read
from dse.source.nvidia.sass import elf

BINARY = "binary"  # the parameter: number of a compiled kernel in order of paths, from 1
CODE = ".cubin", ".amdgcn"  # files of compiled code


class DeclaredParameter(NamedTuple):
    """A parameter of the code, as named in Triton's assembly."""

    name: str  # of the kernel's argument
    part: str  # "", or of a tensor descriptor: shape.0, stride.1
    type: str


@dataclass(frozen=True)
class CachedKernel:
    """One cubin or assembly for AMD GPUs, with Triton's metadata."""

    code: Path
    metadata: Metadata
    parameters: tuple[DeclaredParameter, ...]  # () if there is no assembly
    digest: str  # of the contents of these files

    @property
    def options(self) -> dict[str, int]:
        """The options that it was compiled with; 0 for no limit of registers."""
        of_vendor = CUDA_OPTIONS if self.code.suffix == CODE[0] else HIP_OPTIONS
        return {name: getattr(self.metadata, name) for name in of_vendor}

    @property
    def arch(self) -> int:
        """Its architecture: 80 for sm_80, 0x942 for gfx942."""
        return self.metadata.target.arch


@dataclass(frozen=True)
class TritonCache(OfTriton):
    """A folder of one kernel's compiled code, each file a configuration."""

    path: str
    kernel: str
    entries: tuple[CachedKernel, ...]
    digest: str
    text = ""
    suffix = CODE[0]  # of the code that this toolchain reads

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arguments, first those that all files have."""
        return tuple(arguments_of(self.entries))

    @property
    def types(self) -> tuple[str, ...]:
        """Their types in Triton's notation."""
        return tuple(arguments_of(self.entries).values())

    @property
    def compiler(self) -> str:
        """Triton and its version."""
        return f"Triton {self.entries[0].metadata.triton_version}".strip()

    def architectures(self) -> tuple[int, ...]:
        """List the architectures of the code. **Raises:** DseError if all is another vendor's."""
        own = {entry.arch for entry in self.entries if entry.code.suffix == self.suffix}
        if not own:
            targets = ", ".join(sorted({str(entry.metadata.target) for entry in self.entries}))
            raise DseError(
                f"{self.path}: architecture: found {targets}, expected code in {self.suffix} files"
            )
        return tuple(sorted(own))

    def settings(self, defines: Settings, arguments: Sequence[Any]) -> Settings:
        """Return the number of the file."""
        return ((BINARY, dict(defines)[BINARY]),)

    def compile(self, arch: int, settings: Settings) -> Any:
        """Read the code. Code for another architecture is a failure."""
        entry = self.entries[dict(settings)[BINARY] - 1]
        if entry.arch != arch:
            names = f"found {entry.metadata.target}, expected {CompileTarget(arch=arch)}"
            return Failure("not executed", f"{entry.code}: architecture: {names}")
        launched = replace(launched_as(entry.metadata), passed=_passed(entry, self.names))
        return self.made(entry.code, launched)

    def made(self, code: Path, launched: Launched) -> Any:
        """Read a cubin."""
        cubin = read_bytes(code, nvrtc.MOST_BYTES)
        binaries = elf.read(cubin, str(code))
        if self.kernel not in binaries:
            raise DseError(f"{code}: kernel: found {', '.join(binaries) or 'none'}, expected {self.kernel}")
        binary = binaries[self.kernel]
        launched = with_scratch(launched, len(binary.parameters))
        return Compiled(binary, cubin, None, "", self.compiler, None, launched=launched)


def read_source(path: Path, kernel: str = "") -> TritonCache:
    """Read a folder of Triton's cache: code in it or in its subfolders, each with a .json file.

    **Raises:** DseError if there is none, or several kernels and none is named.
    """
    entries = _entries(path.resolve(), _stamps(path))
    kernels = list(dict.fromkeys(entry.metadata.name for entry in entries))
    if not entries:
        raise DseError(f"{path}: found no {' or '.join(CODE)} with Triton's .json beside it, expected one")
    if kernel not in kernels and (kernel or len(kernels) > 1):
        stated = f"no {kernel}" if kernel else "several"
        raise DseError(
            f"{path}: kernel: found {stated}, expected one of {', '.join(kernels)} (given.function)"
        )
    matching = tuple(entry for entry in entries if entry.metadata.name == (kernel or kernels[0]))
    digest = key(*(f"{entry.code}{entry.digest}" for entry in matching))
    return TritonCache(str(path), kernel or kernels[0], matching, digest)


def arguments_of(entries: Sequence[CachedKernel]) -> dict[str, str]:
    """Return the types of the kernel's arguments by name; numbers compiled into the code are unknown."""
    most = max(entries, key=lambda entry: len(entry.parameters))
    every = (parameter for entry in (most, *entries) for parameter in entry.parameters if not parameter.part)
    texts: dict[str, str] = {}
    for parameter in every:
        texts.setdefault(parameter.name, parameter.type)
    return texts


def _passed(entry: CachedKernel, names: Sequence[str]) -> tuple[Passed, ...]:
    boxes = list(entry.metadata.tensordesc_meta)
    passed = []
    for name, part, kind in entry.parameters:
        index, (what, _, axis) = names.index(name), part.partition(".")
        if what == "shape" or what == "stride":
            passed.append(Passed(index, what, int(axis)))
        elif part:
            passed.append(Passed(index, "flag"))
        elif kind.startswith("tensordesc") and boxes:
            box = boxes.pop(0)
            passed.append(Passed(index, "map", box=box.block_size, swizzle=box.swizzle))
        else:
            part = "pointer" if kind.startswith("*") else "all"
            passed.append(Passed(index, part, fractions=has_fractions(kind)))
    return tuple(passed)


def _stamps(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Return the files of a folder with time and size, by which edits are recognised."""
    files = [*folder.glob("*.*"), *folder.glob("*/*.*")]
    kept = sorted(file for file in files if file.suffix in (*CODE, ".json", ".ttir") and is_file(file))
    return tuple((str(file), (status := file.stat()).st_mtime_ns, status.st_size) for file in kept)


@lru_cache(maxsize=16)
def _entries(path: Path, stamps: tuple[tuple[str, int, int], ...]) -> tuple[CachedKernel, ...]:
    entries = []
    patterns = [place + suffix for place in ("*", "*/*") for suffix in CODE]
    for code in sorted(file for pattern in patterns for file in path.glob(pattern)):
        metadata, assembly = code.with_suffix(".json"), code.with_suffix(".ttir")
        for file in filter(is_file, (code, metadata, assembly)):
            file_below(path, str(file.relative_to(path)), str(path))
        if metadata.is_file():
            there = [
                read_bytes(file, nvrtc.MOST_BYTES) for file in (code, metadata, assembly) if file.is_file()
            ]
            digest = key(*map(bytes.hex, there))
            entries.append(CachedKernel(code, read(metadata), _parameters(assembly), digest))
    return tuple(entries)


def _parameters(assembly: Path) -> tuple[DeclaredParameter, ...]:
    if not assembly.is_file():
        return ()
    declared = re.search(r"tt\.func public @\w+\((.*)\) attributes", read_text(assembly, nvrtc.MOST_BYTES))
    if declared is None:
        return ()
    declarations = re.findall(r"%([\w.]+): (!?[\w.]+(?:<[^>]*>)?)", declared[1])
    parts = ((*name.partition("."), kind) for name, kind in declarations)
    return tuple(DeclaredParameter(name, part, _type(kind)) for name, _, part, kind in parts)


def _type(kind: str) -> str:
    """Return a type of the assembly in the notation of Triton's signatures."""
    match = re.fullmatch(r"!tt\.(ptr|tensordesc)<(?:((?:\d+x)+))?(\w+).*>", kind)
    if match is None:
        return _SHORT.get(kind, kind)
    what, block, element = match.groups()
    element = _SHORT.get(element, element)
    sizes = (block or "").rstrip("x").replace("x", ",")
    return f"*{element}" if what == "ptr" else f"tensordesc<{element}[{sizes}]>"


_SHORT = {f"f{bits}": f"fp{bits}" for bits in (16, 32, 64)}

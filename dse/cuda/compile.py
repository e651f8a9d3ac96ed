"""CUDA source to machine code, for one configuration at a time, without a GPU and without a toolkit.

NVRTC compiles in this process. It takes a hundredth of a second to some seconds, so what comes of it is worth
keeping (`cache`) and many configurations are worth several processes (`parallel`). A configuration that does
not compile is a result like any other; only what is wrong with all of them raises.
"""

import importlib.metadata
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from dse.cuda import elf
from dse.cuda.cache import key
from dse.cuda.elf import Binary
from dse.cuda.extra import INSTALL, needs
from dse.errors import DseError


@dataclass(frozen=True)
class Source:
    """A CUDA file, and what all its configurations share."""

    path: str  # for messages
    text: str
    kernel: str  # its name, or a C++ expression for a template: "scale<4>"; "" for the only one
    folders: tuple[str, ...]  # where included files are looked for
    options: tuple[str, ...]  # further ones, of NVRTC
    digest: str  # of all this and of the files that it includes


@dataclass(frozen=True)
class Compiled:
    """One configuration of a kernel, compiled."""

    binary: Binary
    cubin: bytes
    ptx: str | None
    log: str  # warnings
    compiler: str  # and its version
    spill_bytes: int | None  # that one thread's spilled registers move if each such instruction runs once


@dataclass(frozen=True)
class Failure:
    """Why a configuration does not compile, or cannot be executed here."""

    reason: Literal["compile error", "too much shared memory", "too much local memory", "not executed"]
    message: str  # the first error


def read_source(
    path: Path | str, kernel: str = "", folders: Sequence[Path | str] = (), options: Sequence[str] = ()
) -> Source:
    """Read a CUDA file. Files beside it, in `folders` and among the installed CUDA headers may be included.

    **Edges:** the digest covers every file that an `#include` names and that is found, whether or not a
    configuration reads it; not one that is named by a macro.
    **Raises:** DseError if the file cannot be read.
    """
    path = Path(path)
    text = _read(path)
    searched = tuple(str(Path(folder).resolve()) for folder in (path.parent, *folders, *_installed_headers()))
    digest = key(kernel, str(len(options)), *options, path.name, text, *_included(text, searched))
    return Source(str(path), text, kernel, searched, tuple(options), digest)


def compile_source(
    source: Source, arch: int, defines: Mapping[str, Any], *, ptx: bool = False
) -> Compiled | Failure:
    """One configuration as machine code for compute capability `arch` / 10, with line information.

    `defines` are macros; True and False become 1 and 0.

    **Raises:** DseError if NVRTC is missing or does not know the architecture or an option; if the file lacks
    the kernel, or has several and none is asked for.
    """
    nvrtc = _nvrtc()
    if arch not in architectures():
        known = ", ".join(map(str, architectures()))
        raise DseError(f"sm_{arch}: architecture: {compiler()} compiles for {known}")
    options = [
        f"--gpu-architecture=sm_{arch}",
        "-lineinfo",
        "--ptxas-options=-v",  # tells of spills
        *source.options,
        *(f"--include-path={folder}" for folder in source.folders),
        *(f"--define-macro={name}={_macro(value)}" for name, value in defines.items()),
    ]
    program = _checked(
        nvrtc.nvrtcCreateProgram(source.text.encode(), Path(source.path).name.encode(), 0, [], [])
    )
    try:
        expression = source.kernel if not source.kernel.startswith("_Z") else ""  # else it is mangled
        if expression:
            _checked(nvrtc.nvrtcAddNameExpression(program, expression.encode()))
        (result,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        log = _string(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
        if result == nvrtc.nvrtcResult.NVRTC_ERROR_INVALID_OPTION:
            raise DseError(f"{source.path}: compiler options: {log.splitlines()[0]}")
        if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            failure = _failure(source.path, log or str(result))
            if "__nv_name_map" in failure.message:
                raise _no_kernel(source.path, source.kernel, _kernels_in(source.text))
            return failure
        cubin = _bytes(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
        assembly = _string(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program) if ptx else None
        name = source.kernel
        if expression:
            name = _checked(nvrtc.nvrtcGetLoweredName(program, expression.encode())).decode()
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    binary = _chosen(cubin, source.path, name)
    warnings = "\n".join(line for line in log.splitlines() if not _PTXAS_INFO.match(line))
    return Compiled(binary, cubin, assembly, warnings, compiler(), _spill_bytes(log, binary.kernel))


def load(path: Path | str, kernel: str = "", arch: int | None = None) -> Compiled | Failure:
    """A ready `.cubin`; or a `.ptx`, which ptxas compiles for `arch` (default: the one that it targets).

    NVRTC cannot read PTX, so that takes ptxas on the PATH.

    **Raises:** DseError if the file is neither or cannot be read, if ptxas is missing, and if there is no
    such kernel, or several and none is named.
    """
    path = Path(path)
    if path.suffix == ".cubin":
        try:
            cubin = path.read_bytes()
        except OSError as error:
            raise DseError(f"{path}: cannot read: {error.strerror}") from None
        binary = _chosen(cubin, str(path), kernel)
        if arch not in (None, binary.arch):
            raise DseError(f"{path}: architecture: found sm_{binary.arch}, expected sm_{arch}")
        return Compiled(binary, cubin, None, "", _assembler(cubin), None)
    if path.suffix != ".ptx":
        raise DseError(f"{path}: suffix: found {path.suffix!r}, expected .cubin or .ptx")
    text = _read(path)
    target = re.search(r"^\s*\.target\s+(sm_\w+)", text, re.MULTILINE)
    if target is None:
        raise DseError(f"{path}: .target: found none, expected .target sm_..")
    assembler = shutil.which("ptxas")
    if assembler is None:
        raise DseError(f"{path}: PTX: found no ptxas on the PATH, expected one; or give the .cu or a .cubin")
    with tempfile.TemporaryDirectory(prefix="dse-") as folder:
        made = Path(folder, "code.cubin")
        name = f"sm_{arch}" if arch else target[1]
        command = [assembler, "--gpu-name", name, "-v", "-lineinfo", str(path), "-o", str(made)]
        ended = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        log = ended.stderr + ended.stdout
        if ended.returncode:
            return _failure(str(path), log)
        cubin = made.read_bytes()
    binary = _chosen(cubin, str(path), kernel)
    return Compiled(binary, cubin, text, "", _assembler(cubin), _spill_bytes(log, binary.kernel))


@cache
def compiler() -> str:
    """Name and version of the compiler: "NVRTC 13.5.37", or "NVRTC 13.5" where only that is known."""
    version = "{}.{}".format(*_checked(_nvrtc().nvrtcVersion()))
    for distribution in ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"):
        try:
            installed = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
        if installed.startswith(version + "."):
            return f"NVRTC {installed}"
    return f"NVRTC {version}"


@cache
def architectures() -> tuple[int, ...]:
    """What the compiler can compile for: 80 for sm_80."""
    return tuple(_checked(_nvrtc().nvrtcGetSupportedArchs()))


@cache
def _nvrtc() -> Any:
    with needs("cuda-bindings"):
        nvrtc = import_module("cuda.bindings.nvrtc")
    try:
        nvrtc.nvrtcVersion()
    except RuntimeError:  # the binding is there, the library is not
        raise DseError(f"nvidia-cuda-nvrtc: found none, expected {INSTALL}") from None
    return nvrtc


def _checked(result: tuple[Any, ...]) -> Any:
    """What a call gives besides its status, which must be success."""
    status, *values = result
    if status.value:
        raise RuntimeError(f"NVRTC: {status}")
    return values[0] if len(values) == 1 else values


def _bytes(size: Any, read: Any, program: Any) -> bytes:
    buffer = bytearray(_checked(size(program)))
    _checked(read(program, buffer))
    return bytes(buffer)


def _string(size: Any, read: Any, program: Any) -> str:
    return _bytes(size, read, program).decode(errors="replace").strip("\0\n ")


def _macro(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _chosen(cubin: bytes, where: str, kernel: str) -> Binary:
    binaries = elf.read(cubin, where)
    if not kernel and len(binaries) == 1:
        return next(iter(binaries.values()))
    if kernel in binaries:
        return binaries[kernel]
    raise _no_kernel(where, kernel, list(binaries))


def _no_kernel(where: str, kernel: str, names: Sequence[str]) -> DseError:
    if kernel in names:
        return DseError(f"{where}: kernel: found {kernel} without template arguments, expected {kernel}<...>")
    found = f"no {kernel}" if kernel else "several" if names else "none"
    expected = f"one of {', '.join(names)}" if names else "a __global__ function (of a template: f<4>)"
    return DseError(f"{where}: kernel: found {found}, expected {expected}")


def _kernels_in(text: str) -> list[str]:
    return list(dict.fromkeys(_KERNEL.findall(text)))


def _failure(path: str, log: str) -> Failure:
    name = Path(path).name
    if match := _TOO_MUCH.search(log):
        kernel, kind, found, limit = match.groups()
        message = (
            f"{name}: {kernel}: {kind} memory: found {int(found, 16)} B, expected at most {int(limit, 16)} B"
        )
        return Failure("too much shared memory" if kind == "shared" else "too much local memory", message)
    lines = log.splitlines() or ["no reason given"]
    message = next((line.strip() for line in lines if _ERROR.search(line)), lines[0].strip())
    if match := _NO_FILE.search(message):
        message = (
            f"{match[1]}: include: found no {match[2]} beside the file or in the folders given; "
            "CUDA's own headers come with the packages nvidia-cuda-runtime and nvidia-cuda-cccl"
        )
    return Failure("compile error", message if name in message else f"{name}: {message}")


def _spill_bytes(log: str, kernel: str) -> int | None:
    for name, stored, loaded in _SPILLS.findall(log):
        if name == kernel:
            return int(stored) + int(loaded)
    return None


def _assembler(cubin: bytes) -> str:
    """The ptxas that made a cubin, by the note that it leaves since CUDA 12."""
    match = re.search(rb"release [\d.]+, V([\d.]+)", cubin)
    return f"ptxas {match[1].decode()}" if match else "ptxas"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise DseError(f"{path}: cannot read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise DseError(f"{path}: text: found byte {error.start} that is no UTF-8, expected UTF-8") from None


def _included(text: str, folders: Sequence[str]) -> Iterator[str]:
    """The text of every file that `text` includes, directly or not, each once."""
    waiting = [(name, folders) for name in _INCLUDE.findall(text)]
    seen = set()
    while waiting:
        name, searched = waiting.pop()
        path = next((path for folder in searched if (path := Path(folder, name)).is_file()), None)
        if path is None or path in seen:
            continue
        seen.add(path)
        found = path.read_text(encoding="utf-8", errors="replace")
        yield name
        yield found
        waiting += [(inner, (str(path.parent), *folders)) for inner in _INCLUDE.findall(found)]


def _installed_headers() -> list[Path]:
    """The folder that NVIDIA's packages share for their headers."""
    try:
        files = importlib.metadata.files("nvidia-cuda-nvrtc") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return [Path(str(file.locate())).parent for file in files if file.name == "nvrtc.h"]


_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
_KERNEL = re.compile(r"__global__[^;{]*?\b(\w+)\s*\((?![^()]*\)\s*\w+\s*\()")
_ERROR = re.compile(r"\berror\b|\bfatal\b")
_NO_FILE = re.compile(r'^(.*?): .*(?:could not|cannot) open source file "([^"]+)"')
_TOO_MUCH = re.compile(
    r"Entry function '(\w+)' uses too much (\w+) data \((0x[0-9a-f]+) bytes, (0x[0-9a-f]+) max\)"
)
_PTXAS_INFO = re.compile(r"ptxas (info|\s+\.)\s*")
_SPILLS = re.compile(
    r"Function properties for (\S+)\s+(?:ptxas\s+\.)?\s*\d+ bytes stack frame, "
    r"(\d+) bytes spill stores, (\d+) bytes spill loads"
)

"""Compile CUDA source to machine code, one configuration at a time, without a GPU or a toolkit.

NVRTC runs in a process of its own (`outside`), with limits. It takes a hundredth of a second to some seconds,
so results are cached (`cache`) and many configurations use several processes (`parallel`). A configuration
that does not compile is a result; only errors of all configurations raise. PTX, cubins and listings are
handled in the same way, without macros.
"""

import importlib.metadata
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dse.core.files import is_file, is_folder, read_bytes, read_text
from dse.core.optional import install, needs
from dse.core.processes import ProcessKilled, compiler_limits, memory_allowed, run, scratch
from dse.errors import DseError
from dse.source.cache import key
from dse.source.contract import STOPPED, Failure, Settings
from dse.source.nvidia.compile.compiler_process import Answer, Request
from dse.source.nvidia.compile.contract import Compiled
from dse.source.nvidia.compile.host_code import for_host, implied, masked, of_cuda, stand_in, without_host
from dse.source.nvidia.compile.includes import included, macro, normal, plainly_named, single
from dse.source.nvidia.compile.kernel_names import chosen, declared_in, names, no_kernel, opened
from dse.source.nvidia.compile.options import check, split
from dse.source.nvidia.compile.outside import ask
from dse.source.nvidia.sass import elf, listing
from dse.source.nvidia.sass.elf import Binary

if TYPE_CHECKING:
    from dse.source.nvidia.compile.constants import Constants


@dataclass(frozen=True)
class CudaSource:
    """A CUDA file, a file of PTX, a cubin or a listing, with the properties that its configurations share."""

    path: str  # for messages; its suffix is the type
    text: str
    kernel: str  # its name, or a C++ expression for a template: "scale<4>"; "" for the only one
    folders: tuple[str, ...]  # searched for included files
    options: tuple[str, ...]  # further ones, of NVRTC
    digest: str  # of all this and of the files that it includes
    cubin: bytes = b""  # instead of text
    headers: tuple[tuple[str, str], ...] = ()  # name and text of included files that are not installed
    other_names: tuple[tuple[str, str], ...] = ()  # of such files, and the name in `headers`
    stand_ins: tuple[tuple[str, str], ...] = ()  # replacements of missing headers of the host

    names = ()  # no contents of arrays are requested: unknown ones count as 0
    # Bytes of static shared memory that ptxas allows on any GPU (CUDA programming guide, technical
    # specifications); a launch may add more.
    most_declared = 48.0 * 1024

    @property
    def texts(self) -> tuple[str, ...]:
        """The source's text and those of its headers."""
        return (self.text, *(text for _, text in self.headers))

    @property
    def named(self) -> dict[str, str]:
        """Texts of its headers by name; a further name of one has an `#include` of the first."""
        return dict(self.headers) | {name: f"#include <{first}>\n" for name, first in self.other_names}

    @property
    def compiler(self) -> str:
        """The compiler and its version."""
        return compiler()

    @property
    def known(self) -> str:
        """The text that the compiler reads before the file."""
        return ""

    def architectures(self) -> tuple[int, ...]:
        """List the architectures it can be compiled for."""
        return architectures()

    def settings(self, defines: Settings, arguments: Sequence[Any]) -> Settings:
        """Return the macros that the text may use, on which a configuration's code depends."""
        named = None if self.options else _words(self.text)
        if named is None:
            return defines
        return tuple((name, value) for name, value in defines if name in named or not name.isidentifier())

    def compile(self, arch: int, settings: Settings) -> "Compiled | Failure":
        """Compile one configuration, see `compile_source`."""
        return compile_source(self, arch, dict(settings))

    def constants(self, defines: Mapping[str, Any], count: int) -> "Constants":
        """Compute the text's constants for `count` configurations."""
        from dse.source.nvidia.compile.constants import constants  # imports NumPy

        return constants(self.text, defines, count)


def read_source(
    path: Path | str, kernel: str = "", folders: Sequence[Path | str] = (), options: Sequence[str] = ()
) -> CudaSource:
    """Read a CUDA file. Files beside it, in `folders` and among the installed CUDA headers may be included.

    A `.ptx`, a `.cubin` or a `.sass` is read too; options are then ignored.

    **Edges:** the digest covers every file found for an `#include`, whether or not a configuration reads it,
    but no file named by a macro.
    **Raises:** DseError if the file cannot be read, an option is not one of
    `dse.source.nvidia.compile.options`, or a file outside of these folders is included.
    """
    path = Path(path)
    if path.suffix == ".cubin":
        cubin = read_bytes(path, MOST_BYTES)
        return CudaSource(str(path), "", kernel, (), (), key(kernel, path.name, cubin.hex()), cubin)
    if path.suffix in _BUILT:
        text = read_text(path, MOST_BYTES)
        return CudaSource(str(path), text, kernel, (), (), key(kernel, path.name, text))
    text = normal(read_text(path, MOST_BYTES), str(path))
    single(path.name.replace('"', "\n"), f"{path.parent}: name of a source")
    single(kernel, f"{path}: kernel")
    options, named = split(options)
    check(options, f"{path}: compiler options")
    installed = installed_headers()
    searched = (
        *(str(Path(folder).resolve()) for folder in (path.parent, *folders, *named)),
        *map(str, installed),
    )
    files = list(included(text, str(path), searched))
    contents = [part for name, _, content in files for part in (name, content)]
    digest = key(kernel, str(len(options)), *options, path.name, text, *contents)
    first: dict[Path, str] = {}  # name of a file
    for name, file, _ in files:
        if not any(file.resolve().is_relative_to(folder) for folder in installed):
            first.setdefault(file.resolve(), name)
    own = dict.fromkeys((name, file.resolve(), content) for name, file, content in files)
    headers = tuple((name, content) for name, file, content in own if name == first.get(file))
    others = tuple((name, first[file]) for name, file, _ in own if file in first and name != first[file])
    compiles = {  # not what lies beside an installed header
        name
        for name, file, _ in files
        if not for_host(name) and any(file == Path(folder, name) for folder in searched)
    }
    asked = plainly_named(text, *(content for _, content in headers)) - compiles
    stand_ins = tuple((name, made) for name in sorted(asked) if (made := stand_in(name)))
    return CudaSource(
        str(path),
        text,
        kernel,
        searched,
        tuple(options),
        digest,
        headers=headers,
        other_names=others,
        stand_ins=stand_ins,
    )


def compile_source(
    source: CudaSource, arch: int, defines: Mapping[str, Any], *, ptx: bool = False
) -> Compiled | Failure:
    """Compile one configuration to machine code for compute capability `arch` / 10, with line information.

    `defines` are macros; True and False become 1 and 0. PTX is assembled; a cubin is already compiled.

    **Raises:** DseError if NVRTC is missing or does not know the architecture or an option; if the file lacks
    the kernel, or has several and none is named; if an assembler is missing, or code is for other GPUs.
    """
    if Path(source.path).suffix in _BUILT:
        return _loaded(source, arch)
    _nvrtc()  # raises if it is missing
    if arch not in architectures():
        known = ", ".join(map(str, architectures()))
        raise DseError(f"sm_{arch}: architecture: {compiler()} compiles for {known}")
    options = [
        f"--gpu-architecture={_target(arch)}",
        "-lineinfo",
        "--ptxas-options=-v",  # reports spills
        *source.options,
        *(f"--include-path={folder}" for folder in source.folders),
    ]
    expression = source.kernel if not source.kernel.startswith("_Z") else ""  # mangled
    try:
        made = _asked(source, defines, options, expression)
        if "__nv_name_map" in made.log and "<" not in expression:  # CUDA may have a function of that name
            plain = _asked(source, defines, options, "")
            compiled = {} if plain.status else elf.read(plain.cubin, source.path)
            made = plain if any(names(name, expression) for name in compiled) else made
    except ProcessKilled as how:
        return _stopped(source.path, how)
    log, assembly, cubin = made.log, made.ptx, made.cubin
    if made.status == "NVRTC_ERROR_INVALID_OPTION":
        raise DseError(f"{source.path}: compiler options: {log.splitlines()[0]}")
    if made.status:
        failure = _failure(source.path, log or made.status)
        if "__nv_name_map" in failure.message:
            raise no_kernel(source.path, source.kernel, declared_in(*source.texts))
        return failure if _NO_FILE.search(log) else _with_headers_left_out(failure, source)
    name = made.name or source.kernel
    binary = chosen(elf.read(cubin, source.path), source.path, name)
    warnings = "\n".join(line for line in log.splitlines() if not _PTXAS_INFO.match(line))
    return Compiled(
        binary,
        cubin,
        assembly if ptx else None,
        warnings,
        compiler(),
        _spill_bytes(log, binary.kernel),
        _adds_shared(assembly, binary.kernel),
    )


def _with_headers_left_out(failure: Failure, source: CudaSource) -> Failure:
    """Add to a compiler's message the headers that were replaced, which may be the reason."""
    names = [name for name, _ in source.stand_ins]
    present = {name for name in names for folder in source.folders if is_file(Path(folder, name))}
    lacking = sorted((name for name in names if of_cuda(name) and name not in present), key=source.text.find)
    left_out = [name for name in names if for_host(name)]
    why = _no_listed_header(Path(source.path).name, ", ".join(lacking)) if lacking else ""
    why = why or (f"left out, as host code: {', '.join(left_out)}" if left_out else "")
    return Failure(failure.reason, f"{failure.message}; {why}") if why else failure


def _asked(source: CudaSource, defines: Mapping[str, Any], options: list[str], expression: str) -> Answer:
    """Compile a text unchanged or, if that fails, without the code for the host in it and its headers."""
    made = _with_headers(source, source.text, {}, defines, options, expression)
    kept = source.text, source.named
    text, own = of_device(source) if made.status else kept
    if (text, own) != kept or "without execution space" in made.log:
        unmarked = "--device-as-default-execution-space"  # applies to the rest: methods, constant functions
        made = _with_headers(source, text, own, defines, [*options, unmarked], expression)
    return made


@lru_cache(maxsize=16)
def of_device(source: CudaSource) -> tuple[str, dict[str, str]]:
    """Return the text and its headers by name, without code for the host, with nvcc's own definitions.

    Unchanged headers are among them: a header that is in no folder finds none beside it.
    """
    text, *contents = without_host(*source.texts)
    if names := implied(text, *contents, known=source.known):
        text = f'{names}#line 1 "{Path(source.path).name}"\n{text}'
    return text, source.named | dict(zip(dict(source.headers), contents, strict=True))


@lru_cache(maxsize=16)
def opens(source: CudaSource) -> str:
    """Return directives after which the source's kernel is known without its namespaces."""
    return opened("\n".join(map(masked, source.texts)), source.kernel)


def _with_headers(
    source: CudaSource,
    text: str,
    own: Mapping[str, str],
    defines: Mapping[str, Any],
    options: list[str],
    expression: str,
) -> Answer:
    """Compile a text, with replacements of missing headers of the host."""
    name, headers = Path(source.path).name, dict(source.stand_ins) | dict(own)
    whole = _with_macros(text, name, defines) + (f"\n{opens(source)}" if expression else "")
    while True:
        before = tuple(headers.items())
        made = ask(Request("nvrtc", whole, name, options, expression, before), source.folders)
        missing = _NO_FILE.search(made.log) if made.status else None
        if missing is None or missing[2] in headers or (replacement := stand_in(missing[2])) is None:
            return made
        headers[missing[2]] = replacement


def _loaded(source: CudaSource, arch: int) -> Compiled | Failure:
    """Load a `.cubin`; a `.ptx`, which is assembled; or a `.sass`, a listing, which has less information.

    Code for an older GPU of the same major number is accepted. PTX needs nvJitLink, of the extra, or ptxas on
    the PATH.
    """
    if cubin := source.cubin:
        binary = _fitting(chosen(elf.read(cubin, source.path), source.path, source.kernel), source, arch)
        # With line information the cubin contains the PTX, its lines separated by zeros.
        ptx = cubin.replace(b"\0", b"\n").decode("ascii", errors="replace")
        adds_shared = _adds_shared(ptx, binary.kernel)
        return Compiled(binary, source.cubin, None, "", _assembler(source.cubin), None, adds_shared)
    if Path(source.path).suffix == ".sass":
        return _listed(source, arch)
    try:
        cubin, log = _assembled(source, arch)
    except ProcessKilled as how:
        return _stopped(source.path, how)
    if not cubin:
        return _failure(source.path, log)
    binary = chosen(elf.read(cubin, source.path), source.path, source.kernel)
    return Compiled(
        binary,
        cubin,
        source.text,
        "",
        _assembler(cubin),
        _spill_bytes(log, binary.kernel),
        _adds_shared(source.text, binary.kernel),
    )


def _listed(source: CudaSource, arch: int) -> Compiled:
    """Return the information of a listing; the rest is unknown."""
    listings = {code.kernel: code for code in listing.parse(source.text, source.path)}
    code = chosen(listings, source.path, source.kernel)
    registers, shared_bytes = listing.resources(source.text, code)
    binary = Binary(code.kernel, code.arch, b"", False, registers, shared_bytes, stack_bytes=None)
    return Compiled(_fitting(binary, source, arch), b"", None, "", "a listing", None, listing=code)


def _fitting(binary: Binary, source: CudaSource, arch: int) -> Binary:
    """Return the binary if a GPU of this architecture can execute it."""
    if not (binary.arch // 10 == arch // 10 and binary.arch <= arch):
        raise DseError(f"{source.path}: architecture: found sm_{binary.arch}, expected sm_{arch}")
    return binary


def _assembled(source: CudaSource, arch: int) -> tuple[bytes, str]:
    """Assemble PTX; return the cubin, empty on errors, and the assembler's messages."""
    try:
        linker = import_module("cuda.bindings.nvjitlink")
        linker.version()
    except (ImportError, RuntimeError):  # the binding is missing, or the library
        return _assembled_outside(source, arch)
    options = [f"-arch={_target(arch)}", "-lineinfo", "-verbose"]
    made = ask(Request("nvjitlink", source.text, Path(source.path).name, options))
    return made.cubin, made.log or made.status


def _assembled_outside(source: CudaSource, arch: int) -> tuple[bytes, str]:
    """Assemble PTX with ptxas."""
    assembler = shutil.which("ptxas")
    if assembler is None:
        problem = "found no nvidia-nvjitlink and no ptxas"
        raise DseError(f"{source.path}: PTX: {problem}, expected {install('cuda')}")
    name = Path(source.path).name
    with scratch({name: source.text.encode()}) as folder:
        text, made = folder / name, folder / "code.cubin"
        command = [assembler, "--gpu-name", _target(arch), "-v", "-lineinfo", str(text), "-o", str(made)]
        ended = run(command)
        log = (ended.errors + ended.output).replace(str(text), text.name)
        return (b"" if ended.code else made.read_bytes()), log


@cache
def compiler() -> str:
    """Return name and version of the compiler: "NVRTC 13.5.37", or "NVRTC 13.5" if only that is known."""
    version = "{}.{}".format(*_nvrtc().nvrtcVersion()[1:])
    for distribution in ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"):
        try:
            installed = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
        if installed.startswith(version + "."):
            return f"NVRTC {installed}"
    return f"NVRTC {version}"


def _target(arch: int) -> str:
    """Return the target with what no later architecture has (wgmma, tcgen05): other code stays the same."""
    return f"sm_{arch}a" if arch >= 90 else f"sm_{arch}"


@cache
def architectures() -> tuple[int, ...]:
    """List the architectures that the compiler supports: 80 for sm_80."""
    return tuple(_nvrtc().nvrtcGetSupportedArchs()[1])


@cache
def _nvrtc() -> Any:
    with needs("cuda-bindings", install("cuda")):
        nvrtc = import_module("cuda.bindings.nvrtc")
    try:
        nvrtc.nvrtcVersion()
    except RuntimeError:  # the binding is present, the library is not
        raise DseError(f"nvidia-cuda-nvrtc: found none, expected {install('cuda')}") from None
    return nvrtc


@lru_cache(maxsize=16)
def _words(text: str) -> frozenset[str] | None:
    """List the words of a text; None if it may have more, from other files or by concatenation."""
    words = frozenset(_WORD.findall(text))
    return None if words & _FROM_ELSEWHERE or _PARTS.search(text) else words


def _with_macros(text: str, path: str, defines: Mapping[str, Any]) -> str:
    """Define macros before the text: as options they would break NVRTC's header, which uses T and pad.

    The types that nvcc takes from the host's system are defined too.
    """
    macros = (macro(name, value, path) for name, value in defines.items())
    lines = [f"#define {name} {value}\n" for name, value in macros]
    return f'{_SYSTEM_TYPES}{"".join(lines)}#line 1 "{Path(path).name}"\n{text}'


def _failure(path: str, log: str) -> Failure:
    name = Path(path).name
    if match := _TOO_MUCH.search(log):
        kernel, kind, used, limit = match.groups()
        message = (
            f"{name}: {kernel}: {kind} memory: found {int(used, 16)} B, expected at most {int(limit, 16)} B"
        )
        return Failure("too much shared memory" if kind == "shared" else "too much local memory", message)
    if _NO_MEMORY.search(log):
        return _stopped(path, ProcessKilled(f"ended: out of memory ({memory_allowed(compiler_limits())})"))
    lines = log.splitlines() or ["no reason given"]
    message = next((line.strip() for line in lines if _ERROR.search(line)), lines[0].strip())
    if match := _NO_FILE.search(message):
        message = _no_listed_header(match[1], match[2])
    return Failure("compile error", message if name in message else f"{name}: {message}")


def no_header(where: str, header: str) -> str:
    """Return the message of a header that was not found."""
    return f"{where}: include: found no {header} beside the file or in the folders given (given.folders)"


def _no_listed_header(where: str, header: str) -> str:
    if not of_cuda(header):
        return no_header(where, header)
    packages = (
        "CUDA's own headers come with the packages nvidia-cuda-runtime, nvidia-cuda-cccl (cuda/, cub/), "
        "nvidia-cuda-crt (mma.h) and nvidia-curand"
    )
    hint = "files of HIP are read for AMD GPUs" if re.match("hip|roc", header) else packages
    return f"{no_header(where, header)}; {hint}"


def _stopped(path: str, how: ProcessKilled) -> Failure:
    return Failure(STOPPED, f"{Path(path).name}: the compiler {how}")


def _spill_bytes(log: str, kernel: str) -> int | None:
    spills = {name: int(stored) + int(loaded) for name, stored, loaded in _SPILLS.findall(log)}
    return spills.get(kernel)


def _assembler(cubin: bytes) -> str:
    """Return the ptxas that made a cubin, from the note that it contains since CUDA 12."""
    match = re.search(rb"release [\d.]+, V([\d.]+)", cubin)
    return f"ptxas {match[1].decode()}" if match else "ptxas"


def _adds_shared(ptx: str, kernel: str) -> bool:
    """Return whether a kernel, or a function that it may call, uses dynamic shared memory."""
    arrays = set(_OPEN_ARRAY.findall(ptx))
    for body in _FUNCTION.split(_OPEN_ARRAY.sub("", ptx))[1:] if arrays else ():
        name = _WORD.match(body)
        if (name is None or name[0] == kernel) and arrays & set(_OPERAND.findall(body)):
            return True
    return False


def installed_headers() -> list[Path]:
    """List the header folders of NVIDIA's packages: the shared one, and that of CCCL in it."""
    try:
        files = importlib.metadata.files("nvidia-cuda-nvrtc") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    folders = [Path(str(file.locate())).parent.resolve() for file in files if file.name == "nvrtc.h"]
    return [*folders, *(folder / "cccl" for folder in folders if is_folder(folder / "cccl"))]


MOST_BYTES = 1 << 26  # of a source, or of code
_SYSTEM_TYPES = "#define __extension__\ntypedef unsigned short ushort; typedef unsigned int uint;\n"
_BUILT = (".cubin", ".ptx", ".sass")
_OPEN_ARRAY = re.compile(r"\.extern\s+\.shared\s[^;]*?([\w$]+)\[\]")  # of shared memory, in PTX
_FUNCTION = re.compile(r"\.(?:entry\s+|func\b)")  # followed by a name only if it is a kernel
_WORD = re.compile(r"[\w$]+")
_OPERAND = re.compile(r"(?<![\w$.])[\w$]+")  # not the `shared` of st.shared, which may be an array's name
_FROM_ELSEWHERE = {"include", "include_next", "import", "embed"}  # directives
_PARTS = re.compile(r"##|%:%:|\w\\\r?\n\w")
_ERROR = re.compile(r"\berror\b|\bfatal\b")
_NO_MEMORY = re.compile(r"catastrophic error: out of memory|OUT_OF_MEMORY")
_NO_FILE = re.compile(r'^(.*?): .*(?:could not|cannot) open source file "([^"]+)"')
_TOO_MUCH = re.compile(
    r"Entry function '(\w+)' uses too much (\w+) data \((0x[0-9a-f]+) bytes, (0x[0-9a-f]+) max\)"
)
_PTXAS_INFO = re.compile(r"ptxas (info|\s+\.)\s*")
_SPILLS = re.compile(
    r"Function properties for (\S+)\s+(?:ptxas\s+\.)?\s*\d+ bytes stack frame, "
    r"(\d+) bytes spill stores, (\d+) bytes spill loads"
)

"""Compile CUDA and HIP files for AMD GPUs: `prelude.h` replaces hip_runtime.h."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dse.errors import DseError
from dse.source.amd.compile import options
from dse.source.amd.compile.clang import Ran, clang, knows, run
from dse.source.cache import key
from dse.source.contract import STOPPED, Failure, Launched, Settings
from dse.source.nvidia.compile import nvrtc
from dse.source.nvidia.compile.host_code import closed, masked
from dse.source.nvidia.compile.includes import macro, plainly_named
from dse.source.nvidia.compile.kernel_names import declared_in, no_kernel
from dse.source.nvidia.compile.options import directives, split

HERE = Path(__file__).parent
PRELUDE, HEADERS = HERE / "prelude.h", HERE / "include"
SUFFIXES = (".cu", ".cuh", ".hip")
_IN_PRELUDE = re.compile(  # headers of which device code needs nothing else
    r"c(float|limits|math|stddef|stdint)|(float|limits|math|stddef|stdint)\.h|cuda(_(bf16|fp16|runtime|runtime_api))?\.h"
    r"|((device_atomic|device|math|vector)_functions|device_launch_parameters|driver_types|host_defines)\.h"
    r"|(math_constants|vector_types|hip/(device_functions|math_functions|hip_\w+))\.h"
)
# Functions that are called are not executed: they are inlined then.
_INLINED = ("-mllvm", "-amdgpu-early-inline-all=true", "-mllvm", "-amdgpu-function-calls=false")
CUDA_SHUFFLES = 32  # default width of a CUDA file's shuffles, threads


@dataclass(frozen=True)
class Built:
    """One configuration as assembly."""

    text: str  # with the lines of the source, without the sections of debug information
    compiler: str
    launched: Launched | None = None  # how it is launched, if its compiler decides that


@dataclass(frozen=True)
class HipSource(nvrtc.CudaSource):
    """A CUDA or HIP file, to be compiled for AMD GPUs. Its fields and settings are those of a CUDA file."""

    most_declared = float("inf")  # only the GPU limits it

    @property
    def compiler(self) -> str:
        """The compiler and its version."""
        return clang().version

    @property
    def known(self) -> str:
        """The names of device code."""
        return PRELUDE.read_text(encoding="utf-8")

    def compile(self, arch: int, settings: Settings) -> Built | Failure:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Compile one configuration. **Raises:** DseError if the compiler lacks the target or an option."""
        return compile_source(self, arch, settings)


def read_source(
    path: Path, kernel: str = "", folders: Sequence[Path | str] = (), given: Sequence[str] = ()
) -> HipSource:
    """Read a .cu or .hip file, which may include files beside it and in `folders`.

    **Raises:** DseError as `dse.source.nvidia.compile.nvrtc.read_source`, and for an option of neither
    compiler.
    """
    if path.suffix not in SUFFIXES:
        raise DseError(f"{path}: suffix: found {path.suffix!r}, expected {', '.join(SUFFIXES)} for AMD GPUs")
    given, named = split(given)
    options.check(given, f"{path}: compiler options")
    read = nvrtc.read_source(path, kernel, (*folders, *named))
    translated = tuple(options.for_clang(given))
    prelude = PRELUDE.read_text(encoding="utf-8")
    digest = key("amd", read.digest, prelude, *translated)
    of_cuda = {str(folder) for folder in nvrtc.installed_headers()}
    folders = tuple(folder for folder in read.folders if folder not in of_cuda)
    return HipSource(**vars(read) | {"folders": folders, "options": translated, "digest": digest})


def compile_source(source: HipSource, arch: int, defines: Sequence[tuple[str, Any]]) -> Built | Failure:
    """Compile one configuration for gfx`arch` (0x90a), with line information.

    **Raises:** DseError if the compiler lacks the target, or the file the kernel.
    """
    if not knows(arch):
        raise DseError(f"gfx{arch:x}: architecture: {clang().version} compiles for none such")
    name = Path(source.path).name
    parameters = [macro(macro_name, value, source.path) for macro_name, value in defines]
    kept, stated = directives(source.options)
    macros = "".join(f"#define {name} {value}\n" for name, value in parameters) + stated
    width = () if Path(source.path).suffix == ".hip" else (f"-DDSE_WIDTH={CUDA_SHUFFLES}",)
    arguments = [
        *("-x", "hip", "--cuda-device-only", f"--offload-arch=gfx{arch:x}", "-nogpuinc", "-nogpulib"),
        *("-nostdlibinc", "-std=c++17", "-O3", "-fdeclspec", "-fno-math-errno", "-S", "-gline-tables-only"),
        *("-fuse-cuid=none", "-Wno-everything", "-fno-caret-diagnostics", "-ferror-limit=1"),
        "-fdelayed-template-parsing",  # as NVRTC: names that only other templates use may be missing
        *("-include", str(PRELUDE), f"-I{HEADERS}", "-I.", *(f"-I{folder}" for folder in source.folders)),
        *(() if clang().version < "clang 14" else ("-mcode-object-version=5",)),
        *(*width, *kept),
    ]
    instance = ""
    if "<" in source.kernel:
        instance = f'\n{nvrtc.opens(source)}#line 1 "kernel"\nauto* const dse_kernel = &{source.kernel};\n'
    folders = [HERE, *source.folders]

    def compiled(text: str, headers: Mapping[str, str]) -> Ran:
        text = f'{macros}#line 1 "<stdin>"\n{text}{instance}'
        ran = run(arguments, text, folders, headers)
        return run([*arguments, *_INLINED], text, folders, headers) if _CALL in ran.code else ran

    empty = {name: "" for name in plainly_named(*source.texts) if _IN_PRELUDE.fullmatch(name)}
    headers = _inside(dict(source.stand_ins)) | empty
    ran = compiled(source.text, headers)
    if not (ran.stopped or ran.code):  # retry without code for the host
        text, every = nvrtc.of_device(source)
        ran = compiled(f"{_FORCED_LINES}{text}", headers | _inside(every))
        if "attributes are not compatible" in ran.log:  # a kernel is declared twice, or specialised
            every = {name: _marked(content) for name, content in every.items()}
            ran = compiled(f"{_FORCED_LINES}{_marked(text)}", headers | _inside(every))
    if ran.stopped:
        return Failure(STOPPED, f"{name}: {ran.log}")
    unlike = "'dse_kernel' with type" in ran.log  # its template arguments do not tell which one it is
    if not (ran.code or unlike):
        return _failure(name, ran.log)
    if unlike or ".amdhsa_kernel" not in ran.code:
        raise no_kernel(source.path, source.kernel, declared_in(*source.texts) if source.kernel else [])
    return Built(without_debug(ran.code), clang().version)


def _marked(text: str) -> str:
    """Except kernels from what is compiled for host and device: clang would allow no second declaration."""
    code, pieces, begun = masked(text), [], 0
    for kernel in re.finditer(r"\b__global__\b", code):
        end = min(closed(code, kernel.end(), len(code), ";{") + 1, len(code))
        if kernel.start() >= begun:
            pieces += [text[begun : kernel.start()], _FORCED.format("end"), text[kernel.start() : end]]
            pieces.append(_FORCED.format("begin"))
            begun = end
    return "".join([*pieces, text[begun:]])


def _inside(headers: Mapping[str, str]) -> dict[str, str]:
    """Leave out headers whose names lead out of the folder."""
    return {
        name: content
        for name, content in headers.items()
        if not Path(name).is_absolute() and ".." not in Path(name).parts
    }


def without_debug(code: str) -> str:
    """Remove the sections of debug information, which are not needed."""
    kept, there = [], True
    for line in code.splitlines():
        if line.startswith("\t.section") or line in ("\t.text", "\t.data", "\t.bss", "\t.amdgpu_metadata"):
            there = not line.startswith("\t.section\t.debug")
        if there:
            kept.append(line)
    return "\n".join(kept) + "\n"


def _failure(name: str, log: str) -> Failure:
    log = log.replace("<stdin>", name)
    if match := _TOO_MUCH_SHARED.search(log):
        kernel = match[3] or name
        message = f"{name}: {kernel}: shared memory: found {match[1]} B, expected at most {match[2]} B"
        return Failure("too much shared memory", message)
    lines = log.splitlines() or ["no reason given"]
    if match := _UNKNOWN_OPTION.search(log):
        raise options.refused(match[1])
    message = next((line.strip() for line in lines if "error:" in line), lines[0].strip())
    message = re.sub(r"^.* declared with 'error' attribute: ", "", message)  # of prelude.h
    if match := _NO_FILE.search(message):
        message = nvrtc.no_header(match[1], match[2])
    return Failure("compile error", message if name in message else f"{name}: {message}")


_FORCED_LINES = "#pragma clang force_cuda_host_device begin\n#line 1\n"
_FORCED = ' _Pragma("clang force_cuda_host_device {}") '
_CALL = "\ts_swappc_b64"
_TOO_MUCH_SHARED = re.compile(r"local memory \((\d+)\) exceeds limit \((\d+)\)(?: in function '(\w+)')?")
_NO_FILE = re.compile(r"^(.*?:\d+):\d+: fatal error: '([^']+)' file not found")
_UNKNOWN_OPTION = re.compile(r"(?:unknown argument|unsupported option|unknown.*option)[: ]+'([^']+)'")

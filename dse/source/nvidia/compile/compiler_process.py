"""NVRTC and nvJitLink in a process of their own: started by `outside`, not imported.

Sources are not trusted: they may take all memory, never end, or crash the compiler. Requests are read from
standard input and answered on standard output, each as msgpack preceded by its length.
"""

import os
import queue
import site
import sys
import threading
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from dse.core.landlock import SYSTEM, confine

LENGTH_BYTES = 8


class Request(NamedTuple):
    """A text to compile, or to assemble."""

    compiler: str  # nvrtc or nvjitlink
    text: str
    name: str  # of the file, for messages
    options: list[str]
    expression: str = ""  # a C++ expression for the kernel, whose mangled name is needed
    headers: tuple[tuple[str, str], ...] = ()  # name and text of headers that are in no folder


class Answer(NamedTuple):
    """The compiler's result."""

    status: str  # "" on success
    log: str
    cubin: bytes = b""
    ptx: str = ""
    name: str = ""  # of the kernel in the code


def main() -> None:
    """Answer requests until standard input ends; then end at once, even while compiling."""
    requests, answers = os.fdopen(0, "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # compilers' output is discarded
    packages = [*site.getsitepackages(), site.getusersitepackages(), sys.prefix, sys.base_prefix]
    for name in ("nvrtc", "nvjitlink"):  # their libraries may be elsewhere
        with suppress(ImportError):
            packages.append(str(Path(str(import_module(f"cuda.bindings.{name}").__file__)).parents[2]))
    confine([*SYSTEM, *packages, *sys.argv[1:]])
    waiting: queue.SimpleQueue[Request] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests, waiting), daemon=True).start()
    while True:
        request = waiting.get()
        answer = (_compiled if request.compiler == "nvrtc" else _assembled)(request)
        packed = msgspec.msgpack.encode(answer)
        answers.write(len(packed).to_bytes(LENGTH_BYTES) + packed)
        answers.flush()


def _listen(requests: IO[bytes], waiting: "queue.SimpleQueue[Request]") -> None:
    while length := requests.read(LENGTH_BYTES):
        waiting.put(msgspec.msgpack.decode(requests.read(int.from_bytes(length)), type=Request))
    os._exit(0)


def _compiled(request: Request) -> Answer:
    nvrtc = import_module("cuda.bindings.nvrtc")
    names = [header.encode() for header, _ in request.headers]
    texts = [content.encode() for _, content in request.headers]
    text, name = request.text.encode(), request.name.encode()
    program = _checked(nvrtc.nvrtcCreateProgram(text, name, len(names), texts, names))
    if request.expression:
        _checked(nvrtc.nvrtcAddNameExpression(program, request.expression.encode()))
    options = [option.encode() for option in request.options]
    (result,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    log = _string(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
    if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        answer = Answer(result.name, log)
    else:
        cubin = _bytes(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
        ptx = _string(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program)
        name = ""
        if request.expression:
            name = _checked(nvrtc.nvrtcGetLoweredName(program, request.expression.encode())).decode()
        answer = Answer("", log, cubin, ptx, name)
    nvrtc.nvrtcDestroyProgram(program)
    return answer


def _assembled(request: Request) -> Answer:
    linker = import_module("cuda.bindings.nvjitlink")
    handle = linker.create(len(request.options), request.options)

    def log(size: Any, read: Any) -> str:
        buffer = bytearray(size(handle))
        read(handle, buffer)
        return buffer.decode(errors="replace").strip("\0\n ")

    text = request.text.encode() + b"\0"
    try:
        linker.add_data(handle, linker.InputType.PTX, text, len(text), request.name)
        linker.complete(handle)
        cubin = bytearray(linker.get_linked_cubin_size(handle))
        linker.get_linked_cubin(handle, cubin)
        return Answer("", log(linker.get_info_log_size, linker.get_info_log), bytes(cubin))
    except linker.nvJitLinkError as error:
        return Answer(str(error), log(linker.get_error_log_size, linker.get_error_log))
    finally:
        linker.destroy(handle)


def _checked(result: tuple[Any, ...]) -> Any:
    """Return a call's results, after checking its status."""
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


if __name__ == "__main__":
    main()

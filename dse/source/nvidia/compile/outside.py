"""Asks the process that NVIDIA's compilers run in, of which this one has one at most, started when needed."""

import atexit
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import msgspec

from dse.core.processes import Limits, Stopped, after, compiler_limits, died, kill, limit, watched
from dse.source.nvidia.compile.compiler_process import LENGTH_BYTES, Answer, Request


def ask(request: Request) -> Answer:
    """Compile or assemble, within the limits of compilers.

    **Raises:** Stopped if that ended the compiler: the next call starts another.
    """
    limits = compiler_limits()
    with _lock:
        program = _running(limits)
        assert program.stdin is not None
        assert program.stdout is not None
        data, answer = msgspec.msgpack.encode(request), b""
        with watched(program, limits.seconds) as late:
            with suppress(BrokenPipeError):
                program.stdin.write(len(data).to_bytes(LENGTH_BYTES) + data)
                program.stdin.flush()
            length = int.from_bytes(program.stdout.read(LENGTH_BYTES))
            if length <= limits.output_bytes:
                answer = program.stdout.read(length)
        if answer and len(answer) == length:
            return msgspec.msgpack.decode(answer, type=Answer)
        _stop(program)
        if length > limits.output_bytes:
            raise Stopped(f"ended: it made over {limits.output_bytes / 1e6:.3g} MB")
        if late:
            raise Stopped(after(limits))
        raise Stopped(died(program.returncode, limits))


def _running(limits: Limits) -> subprocess.Popen[bytes]:
    """Return our process, with these limits."""
    global _kept
    if _kept is not None:
        owner, with_limits, program = _kept
        if owner == os.getpid() and with_limits == limits and program.poll() is None:
            return program
        if owner == os.getpid():  # else it is our parent's, of which we are a fork
            _stop(program)
    program = subprocess.Popen(
        [sys.executable, "-P", str(Path(__file__).with_name("compiler_process.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,  # Ctrl-C is ours: we end it
    )
    limit(program.pid, limits, alone=False)
    _kept = os.getpid(), limits, program
    return program


def _stop(program: subprocess.Popen[bytes]) -> None:
    kill(program)
    for stream in (program.stdin, program.stdout):
        if stream is not None:
            with suppress(OSError):  # what is still to be written
                stream.close()
    program.wait()


@atexit.register
def _stop_ours() -> None:
    if _kept is not None and _kept[0] == os.getpid():
        _stop(_kept[2])


_kept: tuple[int, Limits, subprocess.Popen[bytes]] | None = None  # whose it is, and what it may take
_lock = threading.Lock()

"""Requests to the process of NVIDIA's compilers: at most one per process, started on demand."""

import atexit
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from dse.core.processes import (
    ProcessKilled,
    ProcessLimits,
    after,
    compiler_limits,
    died,
    kill,
    limit,
    watched,
    wrote_too_much,
)
from dse.source.nvidia.compile.compiler_process import LENGTH_BYTES, Answer, Request


def ask(request: Request, folders: Sequence[str] | None = None) -> Answer:
    """Compile or assemble, within the limits of compilers and reading files in `folders` only.

    **Raises:** ProcessKilled if a limit ended the compiler: the next call starts another.
    """
    limits = compiler_limits()
    with _lock:
        program = _running(limits, None if folders is None else tuple(folders))
        assert program.stdin is not None
        assert program.stdout is not None
        packed, answer = msgspec.msgpack.encode(request), b""
        with watched(program, limits.seconds, of_cpu=True) as late:
            with suppress(BrokenPipeError):
                program.stdin.write(len(packed).to_bytes(LENGTH_BYTES) + packed)
                program.stdin.flush()
            length = int.from_bytes(program.stdout.read(LENGTH_BYTES))
            if length <= limits.output_bytes:
                answer = program.stdout.read(length)
        if answer and len(answer) == length:
            return msgspec.msgpack.decode(answer, type=Answer)
        _stop(program)
        if length > limits.output_bytes:
            raise ProcessKilled(wrote_too_much(limits))
        if late:
            raise ProcessKilled(after(limits))
        raise ProcessKilled(died(program.returncode, limits))


def _running(limits: ProcessLimits, folders: tuple[str, ...] | None) -> subprocess.Popen[bytes]:
    """Return the compiler process, with these limits and folders; None: any."""
    global _kept
    if _kept is not None:
        owner, settings, program = _kept
        wanted = (limits, settings[1] if folders is None else folders)
        if owner == os.getpid() and settings == wanted and program.poll() is None:
            return program
        if owner == os.getpid():  # otherwise it belongs to the parent of this fork
            _stop(program)
    program = subprocess.Popen(
        [sys.executable, "-P", str(Path(__file__).with_name("compiler_process.py")), *(folders or ())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,  # so that Ctrl-C reaches only this process, which ends it
    )
    limit(program.pid, limits, alone=False)
    _kept = os.getpid(), (limits, folders or ()), program
    return program


def _stop(program: subprocess.Popen[bytes]) -> None:
    kill(program)
    for stream in (program.stdin, program.stdout):
        if stream is not None:
            with suppress(OSError):  # from unwritten output
                stream.close()
    program.wait()


@atexit.register
def _stop_ours() -> None:
    if _kept is not None and _kept[0] == os.getpid():
        _stop(_kept[2])


_kept: tuple[int, tuple[ProcessLimits, tuple[str, ...]], subprocess.Popen[bytes]] | None = None  # owner first
_lock = threading.Lock()

"""Other programs, run with limits of time, memory and output, and ended with this process.

Compilers are given files of strangers: some never end, some take all memory there is. Memory and output are
limited on Linux only, time everywhere.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from dse.errors import DseError


@dataclass(frozen=True)
class Limits:
    """What one call of a program may take."""

    seconds: float
    memory_bytes: int  # of its address space
    output_bytes: int  # of each file that it writes, and of what it prints


class Stopped(Exception):
    """A program met a limit, or ended by a signal: one phrase, `ended after 120 s (DSE_COMPILE_SECONDS)`."""


@dataclass(frozen=True)
class Ended:
    """How a program ended, and what it printed."""

    code: int
    output: str
    errors: str


def compiler_limits() -> Limits:
    """Return what one compilation may take: $DSE_COMPILE_SECONDS (120) and $DSE_COMPILE_GB (8).

    No kernel of those that we know takes a tenth of it.

    **Raises:** DseError if one of them is no number above 0.
    """
    seconds, gigabytes = _number("DSE_COMPILE_SECONDS", 120.0), _number("DSE_COMPILE_GB", 8.0)
    return Limits(seconds, int(gigabytes * 1e9), _OUTPUT_BYTES)


def run(
    command: Sequence[str | Path],
    limits: Limits | None = None,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Ended:
    """Run a program, without input, until it ends; `limits` are by default those of compilers.

    **Raises:** Stopped if it met a limit or ended by a signal; OSError if it cannot be started. However this
    ends, nothing of it is left running.
    """
    limits = limits or compiler_limits()
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        program = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            cwd=folder,
            env=environment,
            start_new_session=True,  # so that all that it starts can be ended
        )
        with ended_after(limits.seconds, program) as late:
            limit(program.pid, limits)
            program.wait()
        if late:
            raise Stopped(_after(limits))
        if program.returncode < 0:
            raise Stopped(died(program.returncode, limits))
        return Ended(program.returncode, _text(output, limits), _text(errors, limits))


def limit(process: int, limits: Limits) -> None:
    """Limit the memory and files of a process, where the system can; its processor time if we vanish."""
    if sys.platform != "linux":
        return
    import resource  # is not everywhere

    seconds = int(limits.seconds) + 1
    for what, most in (
        (resource.RLIMIT_AS, limits.memory_bytes),
        (resource.RLIMIT_FSIZE, limits.output_bytes),
        (resource.RLIMIT_CPU, seconds * (os.cpu_count() or 1)),
        (resource.RLIMIT_CORE, 0),
    ):
        with suppress(OSError, ValueError):  # it has ended, or may have less already
            resource.prlimit(process, what, (most, most))


@contextmanager
def ended_after(seconds: float, program: subprocess.Popen[bytes]) -> Iterator[list[bool]]:
    """End a program with the block, or earlier when the time is over: then the list is not empty.

    To wait with a timeout would be to ask again and again, up to 0.05 s apart.
    """
    late: list[bool] = []

    def stop() -> None:
        late.append(True)
        _kill(program)

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()
        _kill(program)
        program.wait()


def _kill(program: subprocess.Popen[bytes]) -> None:
    """Kill a program that leads a session of its own, and all that it started."""
    with suppress(OSError):  # it has ended
        if hasattr(os, "killpg"):
            os.killpg(program.pid, signal.SIGKILL)
        else:
            program.kill()


def died(code: int, limits: Limits) -> str:
    """Say why a program ended by a signal, whose number `code` is, below 0."""
    number = -code
    if sys.platform == "linux" and number == signal.SIGXCPU:
        return _after(limits)
    if sys.platform == "linux" and number == signal.SIGXFSZ:
        return f"ended: it wrote over {limits.output_bytes / 1e6:.3g} MB"
    known = {each.value: each.name for each in signal.Signals}
    memory = f"it may take {limits.memory_bytes / 1e9:.3g} GB, DSE_COMPILE_GB"
    return f"ended by {known.get(number, f'signal {number}')} ({memory})"


def _after(limits: Limits) -> str:
    return f"ended after {limits.seconds:g} s (DSE_COMPILE_SECONDS)"


def _text(file: IO[bytes], limits: Limits) -> str:
    file.seek(0)
    return file.read(limits.output_bytes).decode("utf-8", errors="replace")


def _number(name: str, default: float) -> float:
    given = os.environ.get(name, "")
    try:
        number = float(given) if given else default
    except ValueError:
        number = 0.0
    if not 0 < number < _MOST:
        raise DseError(f"{name}: found {given[:40]!r}, expected a number above 0 and below {_MOST:g}")
    return number


_OUTPUT_BYTES = 1 << 28
_MOST = 1e6

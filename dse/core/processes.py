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
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, NoReturn

from dse.errors import DseError


@dataclass(frozen=True)
class ProcessLimits:
    """What one call of a program may take."""

    seconds: float
    memory_bytes: int  # of its address space
    output_bytes: int  # of each file that it writes, and of what it prints


class Stopped(Exception):
    """A program met a limit, or ended by a signal: one phrase, `ended after 60 s (DSE_COMPILE_SECONDS)`."""


class OverLimit(DseError):
    """What was read took more than it may: with another limit it may be read."""


@dataclass(frozen=True)
class Ended:
    """How a program ended, and what it printed."""

    code: int
    output: str
    errors: str


def compiler_limits() -> ProcessLimits:
    """Return what one compilation may take: $DSE_COMPILE_SECONDS (60) and $DSE_COMPILE_GB (4).

    Each file that it writes, and what it prints, has at most $DSE_COMPILE_MB (32) of text. No kernel of those
    that we know takes a tenth of it.

    **Raises:** DseError if one of them is no number above 0.
    """
    seconds, gigabytes = _number("DSE_COMPILE_SECONDS", 60.0), _number("DSE_COMPILE_GB", 4.0)
    return ProcessLimits(seconds, int(gigabytes * 1e9), int(_number("DSE_COMPILE_MB", 32.0) * 1e6))


def run(
    command: Sequence[str | Path],
    limits: ProcessLimits | None = None,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    text: str = "",
) -> Ended:
    """Run a program with `text` as its input until it ends; `limits` are by default those of compilers.

    **Raises:** Stopped if it met a limit or ended by a signal; OSError if it cannot be started. However this
    ends, nothing of it is left running.
    """
    limits = limits or compiler_limits()
    with _temporary() as input_file, _temporary() as output, _temporary() as errors:
        _add(input_file, text.encode("utf-8", "surrogateescape"))
        input_file.seek(0)
        program = subprocess.Popen(
            [str(part) for part in command],
            stdin=input_file,
            stdout=output,
            stderr=errors,
            cwd=folder,
            env=environment,
            start_new_session=True,  # so that all that it starts can be ended
        )
        try:
            with watched(program, limits.seconds) as late:
                limit(program.pid, limits, alone=True)
                program.wait()
        finally:
            kill(program)  # or what it started and left
        if late:
            raise Stopped(after(limits))
        if program.returncode < 0:
            raise Stopped(died(program.returncode, limits))
        return Ended(program.returncode, _text(output, limits), _text(errors, limits))


@contextmanager
def memory_limited(what: str) -> Iterator[None]:
    """Limit what the block adds to the memory of this process to what a compiler may take, on Linux.

    **Raises:** OverLimit in the place of MemoryError.
    """
    limits = compiler_limits()
    if sys.platform != "linux":
        yield
        return
    import resource  # is not everywhere

    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = _addresses() + limits.memory_bytes
    if before != resource.RLIM_INFINITY and before <= most:  # a limit that is not ours
        yield
        return
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        yield
    except MemoryError:
        raise OverLimit(f"{what}: reading its code ended ({memory_allowed(limits)})") from None
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))


@contextmanager
def scratch(files: Mapping[str, bytes]) -> Iterator[Path]:
    """Give a folder of temporary files with these in it, which goes with the block.

    **Raises:** DseError if they cannot be written.
    """
    with ExitStack() as stack:
        with _writing():
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dse-")))
            for name, content in files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(content)
        yield folder


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = f"cannot write: {error.strerror or error}; TMPDIR names another"
        raise DseError(f"folder of temporary files: {reason}") from None


def _temporary() -> IO[bytes]:
    with _writing():
        return tempfile.TemporaryFile(buffering=0)  # what cannot be written is not tried again at the end


def _add(file: IO[bytes], content: bytes) -> None:
    """Write at the end. **Raises:** DseError if there is no room, nor was for what others wrote before."""
    with _writing():
        file.seek(0, os.SEEK_END)
        while content:
            content = content[file.write(content) :]


def in_fork(make: Callable[[], bytes], limits: ProcessLimits | None = None) -> bytes:
    """Call a function in a fork of this process, which has what this one has imported; return its bytes.

    `limits` are by default those of compilers; memory counts on top of what this process has. Where a system
    has no forks the function is called here, without limits.

    **Raises:** Stopped if it met a limit, ended by a signal or raised. However this ends, nothing of it is
    left running, also where this process is killed.
    """
    limits = limits or compiler_limits()
    if not hasattr(os, "fork"):
        return make()
    results, answer = os.pipe()
    watching, alive = os.pipe()  # ends when we do
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads, whose locks it may wait for: no longer than it may take
        child = os.fork()
    if child == 0:
        _forked(make, limits, answer, watching, (results, alive))
    os.close(answer)
    os.close(watching)
    late: list[bool] = []
    timer = threading.Timer(min(limits.seconds, threading.TIMEOUT_MAX), _end_group, (child, late))
    timer.daemon = True
    timer.start()
    try:
        with os.fdopen(results, "rb") as file:
            sent = file.read(limits.output_bytes)
    finally:
        timer.cancel()
        _end_group(child)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.close(alive)
    if sent.endswith(_WHOLE):
        return sent.removesuffix(_WHOLE)
    raise Stopped(after(limits) if late else died(status, limits))


def _forked(
    make: Callable[[], bytes], limits: ProcessLimits, answer: int, watching: int, theirs: Sequence[int]
) -> NoReturn:
    """Be the fork: answer, and end."""
    code = 1
    try:
        os.setsid()  # so that all that it starts can be ended, and Ctrl-C is our parent's
        for file in theirs:
            os.close(file)
        threading.Thread(target=_end_with, args=(watching,), daemon=True).start()
        taken = _addresses()
        limit(os.getpid(), replace(limits, memory_bytes=limits.memory_bytes + taken), alone=True)
        result = make()
        with os.fdopen(answer, "wb") as file:
            file.write(result + _WHOLE)
        code = 0
    finally:
        os._exit(code)


def _end_with(pipe: int) -> None:
    os.read(pipe, 1)
    os.killpg(0, signal.SIGKILL)


def _end_group(leader: int, late: list[bool] | None = None) -> None:
    if late is not None:
        late.append(True)
    for end in (os.killpg, os.kill):  # before it leads a group it is alone
        with suppress(OSError):
            end(leader, signal.SIGKILL)


def _addresses() -> int:
    """Return how many bytes of addresses this process has."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


_WHOLE = b"whole"  # the end of an answer


def limit(process: int, limits: ProcessLimits, *, alone: bool) -> None:
    """Limit memory and files of a process, where the system can; if it is for one task `alone`, its time."""
    if sys.platform != "linux":
        return
    import resource  # is not everywhere

    wanted = {
        resource.RLIMIT_AS: limits.memory_bytes,
        resource.RLIMIT_FSIZE: limits.output_bytes,
        resource.RLIMIT_CORE: 0,
    }
    if alone:  # ends it where we can no longer
        wanted[resource.RLIMIT_CPU] = (int(limits.seconds) + 1) * (os.cpu_count() or 1)
    for what, most in wanted.items():
        with suppress(OSError, ValueError):  # it has ended, or may have less already
            resource.prlimit(process, what, (most, most))


@contextmanager
def watched(program: subprocess.Popen[bytes], seconds: float) -> Iterator[list[bool]]:
    """Kill a program if the block takes longer, when the list is no longer empty, or if it raises.

    To wait with a timeout would be to ask again and again, up to 0.05 s apart.
    """
    late: list[bool] = []

    def stop() -> None:
        late.append(True)
        kill(program)

    timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), stop)
    timer.daemon = True
    timer.start()
    try:
        yield late
    except BaseException:
        kill(program)
        program.wait()
        raise
    finally:
        timer.cancel()


def kill(program: subprocess.Popen[bytes]) -> None:
    """Kill a program that leads a session of its own, and all that it started."""
    with suppress(OSError):  # it has ended
        if hasattr(os, "killpg"):
            os.killpg(program.pid, signal.SIGKILL)
        else:
            program.kill()


def died(code: int, limits: ProcessLimits) -> str:
    """Say how a program ended that gave no result: by a signal if `code` is below 0."""
    if sys.platform == "linux" and -code == signal.SIGXCPU:
        return after(limits)
    if sys.platform == "linux" and -code == signal.SIGXFSZ:
        import resource

        ours = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        if ours != resource.RLIM_INFINITY and ours < limits.output_bytes:
            return f"ended: it wrote over {ours:,} bytes (ulimit -f)"
        return wrote_too_much(limits)
    how = f"with code {code}"
    if code < 0:
        how = {known.value: f"by {known.name}" for known in signal.Signals}.get(-code, f"by signal {-code}")
    return f"ended {how} ({memory_allowed(limits)})"


def wrote_too_much(limits: ProcessLimits) -> str:
    """Say why a program ended that wrote too much."""
    return f"ended: it wrote over {limits.output_bytes / 1e6:.3g} MB (DSE_COMPILE_MB)"


def memory_allowed(limits: ProcessLimits) -> str:
    """Say how much memory a program may take."""
    return f"it may take {limits.memory_bytes / 1e9:.3g} GB, DSE_COMPILE_GB"


def after(limits: ProcessLimits) -> str:
    """Say why a program ended that took too long."""
    return f"ended after {limits.seconds:g} s (DSE_COMPILE_SECONDS)"


def _text(file: IO[bytes], limits: ProcessLimits) -> str:
    size = file.seek(0, os.SEEK_END)
    _add(file, b"\n")  # programs do not tell that what they print was cut off
    file.seek(0)
    return file.read(min(size, limits.output_bytes)).decode("utf-8", errors="replace")


def _number(name: str, default: float) -> float:
    setting = os.environ.get(name, "")
    try:
        number = float(setting) if setting else default
    except ValueError:
        number = 0.0
    if not 0 < number < _MOST:
        raise DseError(f"{name}: found {setting[:40]!r}, expected a number above 0 and below {_MOST:g}")
    return number


_MOST = 1e6

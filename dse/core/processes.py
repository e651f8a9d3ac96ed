"""Run programs with limits on time, memory and output, and end them with this process.

Compilers get untrusted files, on which some never end or exhaust memory. Memory and output are limited on
Linux only, time everywhere: CPU time on Linux.
"""

import gc
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
from functools import partial
from pathlib import Path
from typing import IO, NoReturn

from dse.errors import DseError


@dataclass(frozen=True)
class ProcessLimits:
    """The limits of one call of a program."""

    seconds: float
    memory_bytes: int  # of its address space
    output_bytes: int  # of each file it writes, and of its output


class ProcessKilled(Exception):
    """A program exceeded a limit or was killed: one phrase, `ended after 60 s (DSE_COMPILE_SECONDS)`."""


class OverLimit(DseError):
    """Reading exceeded a limit; a larger limit may help."""


@dataclass(frozen=True)
class CompletedProcess:
    """The exit code and output of a program."""

    code: int
    output: str
    errors: str


def compiler_limits() -> ProcessLimits:
    """Return the limits of a compilation: $DSE_COMPILE_SECONDS (60) and $DSE_COMPILE_GB (4).

    Each file it writes, and its output, has at most $DSE_COMPILE_MB (32); known kernels need less than a
    tenth.

    **Raises:** DseError if one of them is not a number above 0.
    """
    seconds, gigabytes = _number("DSE_COMPILE_SECONDS", 60.0), _number("DSE_COMPILE_GB", 4.0)
    return ProcessLimits(seconds, int(gigabytes * 1e9), int(_number("DSE_COMPILE_MB", 32.0) * 1e6))


def run(
    command: Sequence[str | Path],
    limits: ProcessLimits | None = None,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    text: str = "",
) -> CompletedProcess:
    """Run a program with `text` as its input; `limits` default to those of compilers.

    **Raises:** ProcessKilled if it exceeds a limit or dies by a signal; OSError if it cannot be started.
    Nothing of it is left running in any case.
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
            start_new_session=True,  # so that its children can be killed too
        )
        try:
            with watched(program, limits.seconds, of_cpu=True) as late:
                limit(program.pid, limits, alone=True)
                program.wait()
        finally:
            kill(program)  # and children it left behind
        if late:
            raise ProcessKilled(after(limits))
        if program.returncode < 0:
            raise ProcessKilled(died(program.returncode, limits))
        return CompletedProcess(program.returncode, _text(output, limits), _text(errors, limits))


@contextmanager
def memory_limited(what: str) -> Iterator[None]:
    """Limit the memory that the block adds to this process to that of a compiler, on Linux.

    **Raises:** OverLimit instead of MemoryError.
    """
    limits = compiler_limits()
    if sys.platform != "linux":
        yield
        return
    import resource  # not on all systems

    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = _addresses() + limits.memory_bytes
    if before != resource.RLIM_INFINITY and before <= most:  # a stricter limit from outside
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
    """Yield a temporary folder with these files, deleted at the end of the block.

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
        return tempfile.TemporaryFile(buffering=0)  # a failed write is not retried on close


def _add(file: IO[bytes], content: bytes) -> None:
    """Append to a file. **Raises:** DseError if the disk is full, for this or for earlier writes."""
    with _writing():
        file.seek(0, os.SEEK_END)
        while content:
            content = content[file.write(content) :]


def in_fork(
    makes: Sequence[Callable[[], bytes]], limits: ProcessLimits | None = None
) -> Iterator[bytes | ProcessKilled]:
    """Call functions in turn in a fork of this process, with its imports; yield the bytes of each.

    `limits` default to those of compilers, and hold for each call; memory counts on top of this process's.
    One that exceeds them, dies by a signal or raises yields the reason, and the next are called in another
    fork; unless it took too long, it is tried again there first, without what others left behind. On systems
    without fork, functions are called here, without limits. Nothing of them is left running in any case,
    even if this process is killed.
    """
    limits, left = limits or compiler_limits(), list(makes)
    if not hasattr(os, "fork"):
        yield from (make() for make in makes)
        return
    while begun := len(left):
        results, answers = os.pipe()
        watching, alive = os.pipe()  # closed when this process ends
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of deadlocks on locks of other threads: the timeout ends them
            child = os.fork()
        if child == 0:
            _forked(left, limits, answers, watching, (results, alive))
        os.close(answers)
        os.close(watching)
        late = []
        try:
            with os.fdopen(results, "rb") as file:
                while left:
                    with _timeout(limits.seconds, partial(_end_group, child), child) as late:
                        length = file.read(_LENGTH_BYTES)
                        size = min(int.from_bytes(length), limits.output_bytes)
                        sent = file.read(size)
                    if len(length) < _LENGTH_BYTES or len(sent) < int.from_bytes(length):
                        break
                    left.pop(0)
                    yield sent
        finally:
            _end_group(child)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            os.close(alive)
        if left and (late or len(left) == begun):
            left.pop(0)
            yield ProcessKilled(after(limits) if late else died(status, limits))


def _forked(
    makes: Sequence[Callable[[], bytes]],
    limits: ProcessLimits,
    answers: int,
    watching: int,
    parents: Sequence[int],
) -> NoReturn:
    """Run in the child process: send the results and exit."""
    code = 1
    try:
        os.setsid()  # so that its children can be killed too, and Ctrl-C goes to the parent
        gc.freeze()  # a collection would write to, and so copy, the parent's whole memory
        for file in parents:
            os.close(file)
        threading.Thread(target=_end_with, args=(watching,), daemon=True).start()
        memory_bytes, seconds = limits.memory_bytes + _addresses(), limits.seconds * len(makes)
        limit(os.getpid(), replace(limits, memory_bytes=memory_bytes, seconds=seconds), alone=True)
        file = os.fdopen(answers, "wb")  # open until the exit: its end has the parent kill this process
        for make in makes:
            result = make()
            file.write(len(result).to_bytes(_LENGTH_BYTES) + result)
            file.flush()
        code = 0
    finally:
        os._exit(code)


def _end_with(pipe: int) -> None:
    os.read(pipe, 1)
    os.killpg(0, signal.SIGKILL)


def _end_group(leader: int) -> None:
    for end in (os.killpg, os.kill):  # it may not lead a group yet
        with suppress(OSError):
            end(leader, signal.SIGKILL)


def _addresses() -> int:
    """Return the size of this process's address space in bytes."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


_LENGTH_BYTES = 8  # in front of a result


def limit(process: int, limits: ProcessLimits, *, alone: bool) -> None:
    """Limit memory and files of a process on Linux, and CPU time if it runs one task `alone`."""
    if sys.platform != "linux":
        return
    import resource  # not on all systems

    resources = {
        resource.RLIMIT_AS: limits.memory_bytes,
        resource.RLIMIT_FSIZE: limits.output_bytes,
        resource.RLIMIT_CORE: 0,
    }
    if alone:  # ends it if this process no longer can
        resources[resource.RLIMIT_CPU] = (int(limits.seconds) + 1) * (os.cpu_count() or 1)
    for kind, most in resources.items():
        with suppress(OSError, ValueError):  # it has ended, or has a lower limit already
            resource.prlimit(process, kind, (most, most))


@contextmanager
def watched(
    program: subprocess.Popen[bytes], seconds: float, *, of_cpu: bool = False
) -> Iterator[list[bool]]:
    """Kill a program if the block raises or takes longer; then the list is not empty.

    Seconds `of_cpu` time pass as the program computes, or at once if it is idle.
    """
    with _timeout(seconds, partial(kill, program), program.pid if of_cpu else 0) as late:
        try:
            yield late
        except BaseException:
            kill(program)
            program.wait()
            raise


@contextmanager
def _timeout(seconds: float, end: Callable[[], None], process: int = 0) -> Iterator[list[bool]]:
    """Call `end` if the block takes longer; then the list is not empty.

    Of a process, CPU time counts, so that a busy machine ends none. A thread, since waiting with a timeout
    polls, up to 0.05 s apart.
    """
    late: list[bool] = []
    over = threading.Event()
    started = _cpu_seconds(process)

    def watch() -> None:
        wait, before = seconds, started
        while not over.wait(min(wait, threading.TIMEOUT_MAX)):
            now = _cpu_seconds(process)
            left = seconds - (now - started)
            if left <= 0 or now - before < _IDLE * wait:
                late.append(True)
                end()
                return
            wait, before = max(left, seconds / 10), now

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield late
    finally:
        over.set()
        thread.join()


_IDLE = 0.01  # share of a processor that a busy machine leaves to any program


def _cpu_seconds(process: int) -> float:
    """Return the CPU time of a process and its children; 0 if unknown."""
    with suppress(OSError):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        own = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
        return own + sum(map(_cpu_seconds, map(int, children)))
    return 0.0


def kill(program: subprocess.Popen[bytes]) -> None:
    """Kill a program that leads its own session, and its children."""
    with suppress(OSError):  # it has ended
        if hasattr(os, "killpg"):
            os.killpg(program.pid, signal.SIGKILL)
        else:
            program.kill()


def died(code: int, limits: ProcessLimits) -> str:
    """Describe the exit of a program without a result; `code` is negative for a signal."""
    if sys.platform == "linux" and -code == signal.SIGXCPU:
        return after(limits)
    if sys.platform == "linux" and -code == signal.SIGXFSZ:
        import resource

        ours = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        if ours != resource.RLIM_INFINITY and ours < limits.output_bytes:
            return f"ended: it wrote over {ours:,} bytes (ulimit -f)"
        return wrote_too_much(limits)
    reason = f"with code {code}"
    if code < 0:
        reason = {known.value: f"by {known.name}" for known in signal.Signals}.get(
            -code, f"by signal {-code}"
        )
    return f"ended {reason} ({memory_allowed(limits)})"


def wrote_too_much(limits: ProcessLimits) -> str:
    """Describe the end of a program that exceeded its output limit."""
    return f"ended: it wrote over {limits.output_bytes / 1e6:.3g} MB (DSE_COMPILE_MB)"


def memory_allowed(limits: ProcessLimits) -> str:
    """Describe the memory limit."""
    return f"it may take {limits.memory_bytes / 1e9:.3g} GB, DSE_COMPILE_GB"


def after(limits: ProcessLimits) -> str:
    """Describe a timeout."""
    return f"ended after {limits.seconds:g} s (DSE_COMPILE_SECONDS)"


def _text(file: IO[bytes], limits: ProcessLimits) -> str:
    size = file.seek(0, os.SEEK_END)
    _add(file, b"\n")  # fails if the disk is full: programs do not report truncated output
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

"""The `dse` process: standard streams, signals and exit."""

import atexit
import codecs
import gc
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from types import FrameType

MOST_COLUMNS = 10_000  # of a terminal
PATIENCE_SECONDS = 1.5  # for cleaning up after Ctrl-C
AGAIN_SECONDS = 0.1  # after a signal that a callback swallowed

_ENDING = ("SIGTERM", "SIGHUP", "SIGXCPU")
_PLAIN = {"µ": "u", "·": "*", "×": "x", "−": "-", "─": "-", "…": "...", "λ": "lambda", "Λ": "Lambda"}


def main() -> None:
    """Run `dse`. Ctrl-C always ends it with 130 and one line."""
    code = 1  # for unhandled exceptions
    atexit.register(_leave, lambda: code)  # registered first, runs last
    # Most objects of a command live as long as it: collecting garbage took a fifth of the time.
    gc.set_threshold(100_000, 20, 50)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # saves a search
    try:
        _listen_for_interrupts()
        _respect_limits()
        _replace_unencodable()
        try:
            from dse.cli.main import run
        except (ImportError, OSError, EOFError, ValueError) as error:
            # A required package is broken.
            print(f"dse: cannot begin: {type(error).__name__}: {error}", file=sys.stderr)
            sys.exit(2)
        run()
        code = 0
    except KeyboardInterrupt:
        _end_now()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if code in (130, *_by_signals()):  # 130: typer's code for KeyboardInterrupt
            _end_now(code, reported=code != 130)
        raise


def _leave(code: Callable[[], int]) -> None:
    """Exit without unloading libraries, which crashes native threads such as Arrow's."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code())


def _listen_for_interrupts() -> None:
    """Raise KeyboardInterrupt on Ctrl-C, and exit at once if it is lost or takes too long.

    It is lost in callbacks, and delayed while compilers run. Other signals that end a process (kill, a closed
    terminal, a time limit) also let it clean up. Signals already ignored, as under nohup, stay ignored.
    """
    for name in _ENDING:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end_by)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _interrupt)
    sys.unraisablehook = _end_or_report
    # Python's resource tracker would warn of semaphores that worker processes leave behind.
    sys.warnoptions.append("ignore::UserWarning:multiprocessing.resource_tracker")
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forget)

    def listen() -> None:
        ending = {getattr(signal, name, signal.SIGINT) for name in (*_ENDING, "SIGINT")}
        while (number := os.read(reader, 1)[0]) not in ending:
            pass
        time.sleep(PATIENCE_SECONDS)
        _end_now(_code(number))

    with suppress(RuntimeError):  # no further threads possible
        threading.Thread(target=listen, daemon=True).start()


def _respect_limits() -> None:
    """Report resource limits instead of being killed, or leaving truncated files.

    `ulimit -t` sets soft and hard limit, at which the process is killed: the soft one is lowered by a second.
    A file size limit could truncate Python's bytecode files, which would break later imports.
    """
    with suppress(ImportError, OSError, ValueError):
        import resource  # not on all systems

        soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
        if soft == hard != resource.RLIM_INFINITY and soft > 1:
            resource.setrlimit(resource.RLIMIT_CPU, (soft - 1, hard))
        if resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY:
            sys.dont_write_bytecode = True


def _by_signals() -> set[int]:
    return {128 + getattr(signal, name) for name in _ENDING if hasattr(signal, name)}


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt; during an import, which would be left half done, exit at once."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            _end_now()
        frame = frame.f_back
    raise KeyboardInterrupt


def _end_by(number: int, frame: FrameType | None) -> None:
    """Unwind, so that no partial files stay, and exit with the signal's code."""
    del frame
    raise SystemExit(_code(number))


def _code(number: int) -> int:
    """The exit code of a signal that ends the process, and its line if there is one."""
    if number == getattr(signal, "SIGXCPU", None):
        _report_time()
        return 2
    return 128 + number


@cache
def _report_time() -> None:
    """Print one line once: the signal comes again with each further second."""
    print("dse: time: found the limit of processor time reached (ulimit -t)", file=sys.stderr)


def _end_or_report(lost: "sys.UnraisableHookArgs") -> None:
    """Exit if a callback would swallow an interrupt, or another signal that ends the process."""
    if isinstance(lost.exc_value, KeyboardInterrupt):
        _end_now()
    code = lost.exc_value.code if isinstance(lost.exc_value, SystemExit) else None  # as `_end_by`
    if code == 2:
        _end_now(2, reported=True)
    if isinstance(code, int) and code in _by_signals():  # again once the callback has ended: it cleans up
        threading.Timer(AGAIN_SECONDS, os.kill, (os.getpid(), code - 128)).start()
        return
    sys.__unraisablehook__(lost)


def _forget() -> None:
    """Reset signal handling in a fork."""
    with suppress(ValueError):  # in a thread
        signal.set_wakeup_fd(-1)
        for name in _ENDING:
            if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) is _end_by:
                signal.signal(getattr(signal, name), signal.SIG_DFL)


def _end_now(code: int = 130, reported: bool = False) -> None:
    """Exit without cleaning up, since a compiler in another thread would crash. Prints its line last."""
    try:
        sys.stdout.flush()
        if not reported and code == 130:
            print("dse: interrupted", file=sys.stderr)
        sys.stderr.flush()
    finally:
        os._exit(code)


def _replace_unencodable() -> None:
    """Replace characters missing in the encoding of a terminal or file; open closed streams."""
    for name in ("COLUMNS", "TERMINAL_WIDTH"):
        if not 0 < _number(os.environ.get(name, "")) <= MOST_COLUMNS:
            os.environ.pop(name, None)
    codecs.register_error("dse", _replaced)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the parent
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="dse")


def _number(text: str) -> int:
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else 0


def _replaced(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(_PLAIN.get(character, "?") for character in text), error.end


if __name__ == "__main__":
    main()

"""The `dse` process: its standard streams, and its end when it is interrupted."""

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
from types import FrameType

MOST_COLUMNS = 10_000  # of a terminal
PATIENCE_SECONDS = 1.5  # from Ctrl-C on, for what has to be tidied up

_ENDING = ("SIGTERM", "SIGHUP", "SIGXCPU")
_PLAIN = {"µ": "u", "·": "*", "×": "x", "−": "-", "─": "-", "…": "...", "λ": "lambda", "Λ": "Lambda"}


def main() -> None:
    """Run `dse`. Ctrl-C ends it with 130 and one line, whatever it is doing."""
    code = 1  # of an exception that nothing handles
    atexit.register(_leave, lambda: code)  # first, so last of all
    _collect_less_garbage()
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # it would look for some
    try:
        _listen_for_interrupts()
        _meet_limits()
        _write_what_can_be_written()
        try:
            from dse.cli.main import run
        except (ImportError, OSError, EOFError, ValueError) as error:
            # Without what it is made with there is no command line.
            print(f"dse: cannot begin: {type(error).__name__}: {error}", file=sys.stderr)
            sys.exit(2)
        run()
        code = 0
    except KeyboardInterrupt:
        _end_now()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if code in (130, *_by_signals()):  # 130: what typer makes of KeyboardInterrupt
            _end_now(code, reported=code != 130)
        raise


def _collect_less_garbage() -> None:
    """Most of what a command makes lives as long as it: to look it all through took a fifth of the time."""
    gc.set_threshold(100_000, 20, 50)


def _leave(code: Callable[[], int]) -> None:
    """End when all else is tidied up: native threads, as Arrow's, crash if libraries are taken down now.

    Nor is what is left looked through once more for garbage.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code())


def _listen_for_interrupts() -> None:
    """Raise KeyboardInterrupt, as Python does, and end at once where that is lost or takes too long.

    It is lost in callbacks, and comes late while compilers run. What asks a process to end (kill, a terminal
    that closes, a limit of time) lets it tidy up likewise. A signal that is ignored, as by nohup, stays so.
    """
    for name in _ENDING:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end_by)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _interrupt)
    sys.unraisablehook = _end_or_tell
    # Python's own keeper of semaphores would tell of those that worker processes leave when we end so.
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
        _end_now(128 + number)

    with suppress(RuntimeError):  # of a system that has no room for another thread
        threading.Thread(target=listen, daemon=True).start()


def _meet_limits() -> None:
    """Tell of limits rather than be killed at them, or leave half a file.

    Where `ulimit -t` sets the limit of processor time one is killed at it: so it comes a second early. Python
    keeps what it compiles of modules, also what a limit of files cuts off: nobody could import that again.
    """
    with suppress(ImportError, OSError, ValueError):
        import resource  # is not everywhere

        soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
        if soft == hard != resource.RLIM_INFINITY and soft > 1:
            resource.setrlimit(resource.RLIMIT_CPU, (soft - 1, hard))
        if resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY:
            sys.dont_write_bytecode = True


def _by_signals() -> set[int]:
    return {128 + getattr(signal, name) for name in _ENDING if hasattr(signal, name)}


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt; amid an import, which it would leave half done, end at once."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            _end_now()
        frame = frame.f_back
    raise KeyboardInterrupt


def _end_by(number: int, frame: FrameType | None) -> None:
    """Unwind, so that nothing half written stays, and end as one does by this signal."""
    del frame
    if number == getattr(signal, "SIGXCPU", None):
        print("dse: time: found the limit of processor time reached (ulimit -t)", file=sys.stderr)
        raise SystemExit(2)
    raise SystemExit(128 + number)


def _end_or_tell(lost: "sys.UnraisableHookArgs") -> None:
    """End where a callback would swallow what is to end us."""
    if isinstance(lost.exc_value, KeyboardInterrupt):
        _end_now()
    if isinstance(lost.exc_value, SystemExit) and lost.exc_value.code in _by_signals():
        _end_now(int(lost.exc_value.code), reported=True)
    sys.__unraisablehook__(lost)


def _forget() -> None:
    """Be a fork: what ends it is not meant for the process that it came from."""
    with suppress(ValueError):  # in a thread
        signal.set_wakeup_fd(-1)
        for name in _ENDING:
            if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) is _end_by:
                signal.signal(getattr(signal, name), signal.SIG_DFL)


def _end_now(code: int = 130, reported: bool = False) -> None:
    """End without tidying up: a compiler that still runs in another thread would crash.

    The line comes last, when nothing is left to go wrong.
    """
    try:
        sys.stdout.flush()
        if not reported and code == 130:
            print("dse: interrupted", file=sys.stderr)
        sys.stderr.flush()
    finally:
        os._exit(code)


def _write_what_can_be_written() -> None:
    """Replace characters that the encoding of the terminal or file does not have; take closed streams."""
    for name in ("COLUMNS", "TERMINAL_WIDTH"):
        if not 0 < _number(os.environ.get(name, "")) <= MOST_COLUMNS:
            os.environ.pop(name, None)
    codecs.register_error("dse", _replaced)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by who started this
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

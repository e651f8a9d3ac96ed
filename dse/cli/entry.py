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
from types import FrameType

MOST_COLUMNS = 10_000  # of a terminal
PATIENCE_SECONDS = 1.5  # from Ctrl-C on, for what has to be tidied up

_PLAIN = {"µ": "u", "·": "*", "×": "x", "−": "-", "─": "-", "…": "...", "λ": "lambda", "Λ": "Lambda"}


def main() -> None:
    """Run `dse`. Ctrl-C ends it with 130 and one line, whatever it is doing."""
    _collect_less_garbage()
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # it would look for some
    try:
        _listen_for_interrupts()
        _write_what_can_be_written()
        from dse.cli.main import run  # imports all commands

        run()
    except KeyboardInterrupt:
        _end_now()
    except SystemExit as end:
        if end.code == 130:
            _end_now(told=True)
        raise


def _collect_less_garbage() -> None:
    """Most of what a command makes lives as long as it: to look it all through took a fifth of the time."""
    gc.set_threshold(100_000, 20, 50)
    atexit.register(_leave_garbage)


def _leave_garbage() -> None:
    """Look what is left not through once more at the end; Triton's library would count it as lost."""
    if "triton" not in sys.modules:
        gc.freeze()


def _listen_for_interrupts() -> None:
    """Raise KeyboardInterrupt, as Python does, and end at once where that is lost or takes too long.

    It is lost in callbacks, and comes late while compilers run.
    """
    # Python's own keeper of semaphores would tell of those that worker processes leave when we end so.
    sys.warnoptions.append("ignore::UserWarning:multiprocessing.resource_tracker")
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.signal(signal.SIGINT, _interrupt)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def listen() -> None:
        while os.read(reader, 1) != bytes([signal.SIGINT]):
            pass
        time.sleep(PATIENCE_SECONDS)
        _end_now()

    threading.Thread(target=listen, daemon=True).start()


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt; amid an import, which it would leave half done, end at once."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            _end_now()
        frame = frame.f_back
    raise KeyboardInterrupt


def _end_now(told: bool = False) -> None:
    """End without tidying up: a compiler that still runs in another thread would crash."""
    try:
        if not told:
            print("dse: interrupted", file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(130)


def _write_what_can_be_written() -> None:
    """Replace characters that the encoding of the terminal or file does not have; take closed streams."""
    if not 0 < _number(os.environ.get("COLUMNS", "")) <= MOST_COLUMNS:
        os.environ.pop("COLUMNS", None)
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

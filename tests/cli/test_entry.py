"""The process: its streams, and its end."""

import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

STARTED = "import time, dse.cli.main as main; from dse.cli.entry import main as start"
SLEEPS = "    time.sleep(60)"
LOSES_INTERRUPTS = """
    class Ends:
        def __del__(self):
            time.sleep(60)
    del_me = Ends()
    del del_me
    while True:
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            pass"""  # as in a callback, or while a compiler runs


def started(code: str, before: str = "", **options: Any) -> subprocess.Popen[str]:
    """Start `dse` with another command line in place of its own; wait until it says that it is ready."""
    script = (
        f"{before}\n{STARTED}\ndef run():\n    print('ready', flush=True)\n{code}\nmain.run = run\nstart()"
    )
    command = [sys.executable, "-c", script]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("code", [SLEEPS, LOSES_INTERRUPTS], ids=["waits", "loses interrupts"])
def test_an_interrupt_ends_it_with_one_line(code):
    process = started(code)
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (130, "dse: interrupted\n")
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize("within", ["", "class Ends:\n            def __del__(self):\n                "])
def test_what_is_asked_to_end_leaves_nothing_half_written(tmp_path, within):
    """Also if the signal arrives in a callback, which swallows it."""
    code = f"""
    from dse.core.files import replacing
    with replacing({str(tmp_path / "t.csv")!r}) as half:
        half.write_text("a")
        {within}print("written", flush=True), time.sleep(60)
        Ends()
        time.sleep(60)"""
    process = started(code)
    assert process.stdout is not None
    assert process.stdout.readline() == "written\n"
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (128 + signal.SIGTERM, "")
    assert list(tmp_path.iterdir()) == []


def test_a_signal_that_is_ignored_stays_so():
    """As in the background of a script, or under nohup."""
    ignore = "; ".join(f"signal.signal(signal.{name}, signal.SIG_IGN)" for name in ("SIGINT", "SIGHUP"))
    process = started("    time.sleep(0.5)\n    print('done')", before=f"import signal; {ignore}")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGHUP)
    out, errors = process.communicate(timeout=30)
    assert (process.returncode, out, errors) == (0, "done\n", "")


@pytest.mark.slow
def test_what_ends_a_fork_does_not_end_its_parent():
    code = """
    import os, signal
    child = os.fork()
    if not child:
        time.sleep(60)
    time.sleep(0.2)
    os.kill(child, signal.SIGTERM)
    os.waitpid(child, 0)
    time.sleep(2)
    print("still here")"""
    out, errors = started(code).communicate(timeout=30)
    assert (out, errors) == ("still here\n", "")


@pytest.mark.skipif(sys.platform != "linux", reason="by a function of its C library")
def test_what_libraries_do_at_their_end_is_not_waited_for():
    """Arrow's threads have ended processes by SIGABRT then."""
    script = """
    import atexit, ctypes, sys
    libc = ctypes.CDLL(None)
    libc.__cxa_atexit(ctypes.cast(libc.abort, ctypes.c_void_p), None, None)
    atexit.register(print, "tidied up", file=sys.stderr)
    sys.exit(2)"""
    process = started(script)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (2, "tidied up\n")


@pytest.mark.quick("0")
@pytest.mark.parametrize("columns", ["80", "0", "99999999999"])
def test_an_encoding_that_lacks_characters_and_a_terminal_of_no_width(columns):
    ascii_only = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0", "COLUMNS": columns}
    command = [sys.executable, "-m", "dse", "reproduce", "--help"]
    ended = subprocess.run(command, env=os.environ | ascii_only, capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert b"Usage" in ended.stdout


@pytest.mark.parametrize("streams", [">&-", "2>&- >/dev/null", "--help | head -c 1"])
def test_closed_streams_and_a_reader_that_has_seen_enough(streams):
    command = f"set -o pipefail; {sys.executable} -m dse --version {streams}"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.slow
def test_an_interrupt_while_it_is_imported():
    code = """
import runpy, sys
class Interrupts:
    def find_spec(self, name, *_):
        if name == "dse.cli.entry":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupts())
runpy.run_module("dse", run_name="__main__")"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (130, b"dse: interrupted\n")

"""The process: its streams, and its end."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

LOST = """
    while True:
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            pass"""  # as in a callback, or while a compiler runs
STARTED = "import time, dse.cli.main as main; from dse.cli.entry import main as start"


def started(code: str, before: str = "", **options) -> subprocess.Popen:
    """Start `dse` with another command line in place of its own; wait until it says that it is ready."""
    script = (
        f"{before}\n{STARTED}\ndef run():\n    print('ready', flush=True)\n{code}\nmain.run = run\nstart()"
    )
    command = [sys.executable, "-c", script]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize(
    "code",
    [
        "    time.sleep(60)",
        LOST,
        "    try:\n        time.sleep(60)\n    except KeyboardInterrupt:\n        raise SystemExit(130)",
    ],
)
def test_an_interrupt_ends_it_with_one_line(code):
    process = started(code)
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=30)
    assert process.returncode == 130
    assert told in ("dse: interrupted\n", "")
    assert time.monotonic() - begun < 10


IN_A_CALLBACK = """
    class Ends:
        def __del__(self):
            time.sleep(60)
    del_me = Ends()
    del del_me"""


def test_an_interrupt_that_a_callback_swallows_ends_it_at_once():
    process = started(IN_A_CALLBACK)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=30)
    assert (process.returncode, told) == (130, "dse: interrupted\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_is_asked_to_end_leaves_nothing_half_written(number, tmp_path):
    code = f"""
    from dse.core.files import replacing
    with replacing({str(tmp_path / "t.csv")!r}) as half:
        half.write_text("a")
        print("written", flush=True)
        time.sleep(60)"""
    process = started(code)
    assert process.stdout is not None
    assert process.stdout.readline() == "written\n"
    process.send_signal(number)
    _, told = process.communicate(timeout=30)
    assert (process.returncode, told) == (128 + number, "")
    assert list(tmp_path.iterdir()) == []


def test_a_signal_that_is_ignored_stays_so():
    """As in the background of a script, or under nohup."""

    ignore = "; ".join(f"signal.signal(signal.{name}, signal.SIG_IGN)" for name in ("SIGINT", "SIGHUP"))
    process = started("    time.sleep(0.5)\n    print('done')", before=f"import signal; {ignore}")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGHUP)
    out, told = process.communicate(timeout=30)
    assert (process.returncode, out, told) == (0, "done\n", "")


@pytest.mark.slow
def test_what_ends_a_fork_does_not_end_us():
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
    process = started(code)
    out, told = process.communicate(timeout=30)
    assert (process.returncode, out, told) == (0, "still here\n", "")


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


@pytest.mark.skipif(sys.platform != "linux", reason="by a function of its C library")
@pytest.mark.parametrize("code", [0, 2])
def test_what_libraries_do_at_their_end_is_not_waited_for(code):
    """Arrow's threads have ended processes by SIGABRT then."""
    script = f"""
    import atexit, ctypes, sys
    libc = ctypes.CDLL(None)
    libc.__cxa_atexit(ctypes.cast(libc.abort, ctypes.c_void_p), None, None)
    atexit.register(print, "tidied up", file=sys.stderr)
    sys.exit({code})"""
    process = started(script)
    _, told = process.communicate(timeout=30)
    assert (process.returncode, told) == (code, "tidied up\n")


def test_a_reader_that_has_seen_enough_of_the_help():
    command = f"set -o pipefail; {sys.executable} -m dse --help | head -c 1"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")


def dse(*arguments: str, out: Any = subprocess.PIPE, **environment: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "dse.cli.entry", *arguments]
    env = {**os.environ, **environment}
    return subprocess.run(command, stdout=out, stderr=subprocess.PIPE, env=env, check=False)


def test_an_encoding_that_lacks_characters():
    ended = dse("reproduce", "--help", PYTHONIOENCODING="ascii", LC_ALL="C", PYTHONUTF8="0", COLUMNS="80")
    assert (ended.returncode, ended.stderr) == (0, b"")
    ended.stdout.decode("ascii")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_line():
    with Path("/dev/full").open("w") as full:
        ended = dse("models", "--csv", out=full)
    assert ended.returncode == 2
    assert ended.stderr == b"dse: standard output: cannot write: No space left on device\n"


def test_closed_streams():
    command = f"{sys.executable} -m dse.cli.entry --version"
    assert subprocess.run(f"{command} >&-", shell=True, check=False).returncode == 0
    assert (
        subprocess.run(f"{command} 2>&-", shell=True, check=False, stdout=subprocess.DEVNULL).returncode == 0
    )


@pytest.mark.parametrize("columns", ["0", "-5", "abc", "99999999999"])
def test_a_terminal_of_no_width_that_there_is(columns):
    ended = dse("doctor", "--help", COLUMNS=columns, TERMINAL_WIDTH=columns)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert b"extras" in ended.stdout


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere one may be told late, or not at all")
def test_a_limit_of_time_is_told_before_it_kills():
    code = "    while True:\n        pass"
    ended = started(code, "import resource; resource.setrlimit(resource.RLIMIT_CPU, (3, 3))")
    _, told = ended.communicate(timeout=60)
    assert (ended.returncode, told) == (
        2,
        "dse: time: found the limit of processor time reached (ulimit -t)\n",
    )


def test_as_a_module():
    ended = subprocess.run([sys.executable, "-O", "-m", "dse", "--version"], capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")

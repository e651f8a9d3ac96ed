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


def started(code: str, **options) -> subprocess.Popen:
    """Start `dse` with another command line in place of its own; wait until it says that it is ready."""
    script = f"{STARTED}\ndef run():\n    print('ready', flush=True)\n{code}\nmain.run = run\nstart()"
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
    ended = dse("doctor", "--help", COLUMNS=columns)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert b"extras" in ended.stdout


def test_as_a_module():
    ended = subprocess.run([sys.executable, "-O", "-m", "dse", "--version"], capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")

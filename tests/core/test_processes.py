import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from dse.core.processes import (
    OverLimit,
    ProcessKilled,
    ProcessLimits,
    compiler_limits,
    died,
    in_fork,
    memory_limited,
    run,
    scratch,
)
from dse.errors import DseError

LIMITS = ProcessLimits(seconds=20, memory_bytes=10**9, output_bytes=10**6)


def python(code, limits=LIMITS, **options):
    return run([sys.executable, "-I", "-c", code], limits, **options)


def test_what_a_program_prints_and_its_code(tmp_path):
    code = "import sys, os; print(os.getcwd(), os.environ['A']); print('no', file=sys.stderr); sys.exit(3)"
    ended = python(code, folder=tmp_path, environment={"A": "1"})
    assert (ended.code, ended.output, ended.errors) == (3, f"{tmp_path} 1\n", "no\n")
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    python("pass")
    assert (len(os.listdir("/proc/self/fd")) if before else 0) == before


def test_a_program_that_does_not_end(tmp_path):
    started = time.monotonic()
    left = tmp_path / "left"
    child = f"import time; time.sleep(1); open({str(left)!r}, 'w')"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with pytest.raises(ProcessKilled, match=r"^ended after 0.5 s \(DSE_COMPILE_SECONDS\)$"):
        python(code, ProcessLimits(0.5, 10**9, 10**6))
    time.sleep(max(0, started + 2 - time.monotonic()))
    assert not left.exists()  # what it had started ended with it


LINUX = pytest.mark.skipif(sys.platform != "linux", reason="no limits from outside elsewhere")
WAITS = """import time
for part in range(1, 16):
    time.sleep(0.06)
    while time.process_time() < 0.02 * part: pass
"""


@LINUX
def test_a_program_that_waits_for_a_processor_does_not_end_for_it():
    started = time.monotonic()
    assert python(WAITS, ProcessLimits(0.6, 10**9, 10**6)).code == 0
    assert time.monotonic() - started > 0.6


PRINTS = """import signal, sys, time; signal.signal(signal.SIGXFSZ, signal.SIG_DFL); time.sleep(0.3)
while True: print('x' * 1000)"""


@LINUX
@pytest.mark.parametrize(
    ("code", "message"),
    [
        (PRINTS, r"^ended: it wrote over 1 MB \(DSE_COMPILE_MB\)$"),
        ("import os; os.kill(os.getpid(), 11)", r"^ended by SIGSEGV \(it may take 1 GB, DSE_COMPILE_GB\)$"),
    ],
)
def test_a_program_that_is_stopped(code, message):
    with pytest.raises(ProcessKilled, match=message):
        python(code)


@LINUX
def test_memory_of_a_program_and_of_a_block(monkeypatch):
    ended = python("import time; time.sleep(0.3); bytearray(2 * 10**9)")
    assert (ended.code, "MemoryError" in ended.errors) == (1, True)
    monkeypatch.setenv("DSE_COMPILE_GB", "0.1")
    before = resource.getrlimit(resource.RLIMIT_AS)
    message = r"^k: reading its code ended \(it may take 0.1 GB, DSE_COMPILE_GB\)$"
    with pytest.raises(OverLimit, match=message), memory_limited("k"), memory_limited("inside"):
        bytearray(10**10)  # more than the process may have in hand
    assert resource.getrlimit(resource.RLIMIT_AS) == before


@pytest.fixture
def room_of_1000_bytes():
    """As on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@LINUX
@pytest.mark.usefixtures("room_of_1000_bytes")
@pytest.mark.parametrize("printed", [0, 100])
def test_no_room_for_what_it_prints(printed):
    """It is cut off, and few programs tell."""
    code = "import os, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    code += f"for _ in range({printed}): os.write(1, b'x' * 40)"
    with pytest.raises(DseError, match="temporary files: cannot write: File too large; TMPDIR"):
        python(code, text="" if printed else "x" * 4000)
    assert died(-signal.SIGXFSZ, LIMITS) == "ended: it wrote over 1,000 bytes (ulimit -f)"


def test_files_that_go_with_a_block(monkeypatch):
    with scratch({"a": b"1"}) as folder:
        assert (folder / "a").read_bytes() == b"1"
    assert not folder.exists()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    with pytest.raises(DseError, match="cannot write: No such file"), scratch({}):
        raise AssertionError


@pytest.mark.parametrize("setting", ["0", "nan", "x", "1e9", "9" * 5000])
def test_limits_that_are_none(monkeypatch, setting):
    monkeypatch.setenv("DSE_COMPILE_SECONDS", setting)
    with pytest.raises(DseError, match=r"^DSE_COMPILE_SECONDS: found .{1,50}, expected a number above 0"):
        compiler_limits()


FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")


@FORKS
def test_a_fork_answers_with_what_this_process_has():
    here = threading.get_ident()
    assert [*in_fork([lambda: f"{here}".encode(), bytes])] == [f"{here}".encode(), b""]


@FORKS
def test_a_fork_meets_its_limits():
    began = time.monotonic()
    makes = [
        lambda: bytes(time.sleep(60) or 0),
        lambda: b"whole",
        lambda: bytes(10**10)[:3],
        lambda: bytes(os.kill(os.getpid(), signal.SIGKILL) or 0),
        lambda: bytes(10**6 + 1),
        lambda: b"too",
    ]
    late, whole, large, killed, long, last = map(str, in_fork(makes, ProcessLimits(0.5, 10**8, 10**6)))
    assert late == "ended after 0.5 s (DSE_COMPILE_SECONDS)"
    assert large == "ended with code 1 (it may take 0.1 GB, DSE_COMPILE_GB)"
    assert killed.startswith("ended by SIGKILL")
    assert long.startswith("ended")
    assert (whole, last) == ("b'whole'", "b'too'")  # calls after one that is ended
    assert time.monotonic() - began < 30  # less than it sleeps


@FORKS
def test_nothing_of_a_fork_is_left_where_its_parent_is_killed(tmp_path: Path):
    code = "import time; from dse.core.processes import in_fork; "
    code += "[*in_fork([lambda: bytes(print('on', flush=True) or time.sleep(60))])]"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"on\n"
        parent.kill()
        assert parent.stdout.read() == b""  # ends when the last that has it open does

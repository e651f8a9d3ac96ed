import errno
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor

import pytest

from dse.core.parallel import parallel_map
from dse.errors import DseError

# What workers run they have to import, and test files are no modules: so it comes from elsewhere.


@pytest.mark.parametrize("workers", [1, 2, None])
def test_results_are_in_order(workers: int | None):
    steps: list[int] = []
    items = [range(200_000 * (3 - n % 4)) for n in range(8)]  # the first end last
    sums = [sum(item) for item in items]
    assert parallel_map(sum, items, workers, steps.append) == sums
    assert steps == [1] * 8
    steps.clear()
    assert parallel_map(sum, items, workers, steps.append, list(range(8))) == sums
    assert sorted(steps) == list(range(8))
    assert parallel_map(sum, [], workers) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_what_is_raised_is_raised_here(workers: int):
    with pytest.raises(ValueError, match=r"invalid literal for int.*'7x'"):
        parallel_map(int, ["7x", "7x"], workers)


@pytest.mark.slow
def test_a_daemonic_process_does_the_work_itself():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(parallel_map, (len, ["a", "bb"], 2)) == [1, 2]


def test_processes_that_vanish_or_cannot_be_started_are_reported(monkeypatch):
    with pytest.raises(DseError, match=r"^workers: found a process that ended early"):
        parallel_map(os._exit, [1, 2], 2)

    def scarce(*given):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(ProcessPoolExecutor, "submit", scarce)
    with pytest.raises(DseError, match=r"^workers: found none that starts, .*: Too many open files$"):
        parallel_map(len, ["a", "bb"], 2)


def test_a_long_name_of_the_folder_of_temporary_files(tmp_path, monkeypatch, run_python):
    """Which is too long for a socket in it."""
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    ran = run_python("from dse.core.parallel import parallel_map; print(parallel_map(len, ['a', 'bb'], 2))")
    assert (ran.out, ran.err) == ("[1, 2]\n", "")


@pytest.fixture
def interruptible():
    """Also where the tests run in the background, which has interrupts ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_it_soon():
    threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT]).start()
    before = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        parallel_map(time.sleep, [60, 60, 60], 2)
    assert time.monotonic() - before < 30
    assert not multiprocessing.active_children()


def is_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


SCRIPTS = {
    "processes": "from dse.core.parallel import parallel_map\nprint(*parallel_map(len, ['a', 'bb'], 2))",
    "cluster": "from dse.core.cluster import client\n"
    "with client(workers=1) as connected:\n    print(connected.submit(len, 'a').result(), 2)",
}


@pytest.mark.slow
@pytest.mark.parametrize("where", SCRIPTS)
def test_a_script_runs_once_without_a_guard(tmp_path, where):
    script = tmp_path / "script.py"
    script.write_text(f"print('begun')\n{SCRIPTS[where]}\n")
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("begun\n1 2\n", "")


@pytest.mark.slow
def test_workers_end_with_a_parent_that_is_killed():
    code = "import time; from dse.core.parallel import parallel_map; parallel_map(time.sleep, [99, 99], 2)"
    parent = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    time.sleep(1.5)
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 10
    while is_there(parent.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_there(parent.pid)

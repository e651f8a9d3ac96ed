"""Machine code is kept in the project's cache, and not needed there."""

import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = """
import dse.core.numba_cache as compile
from numba.core import config

before = config.CACHE_DIR


@compile.compiled
def twice(x):
    return 2 * x


print(twice(21), sum(twice.stats.cache_hits.values()), config.CACHE_DIR == before)
"""


@pytest.fixture
def run_here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """What a script prints with its machine code in a folder; this process has compiled nothing of it."""

    def run_here(script: Path, cache: Path) -> list[str]:
        monkeypatch.setenv("DSE_CACHE", str(cache))
        runpy.run_path(str(script))
        return capsys.readouterr().out.split()

    return run_here


def test_what_was_compiled_is_found_again(tmp_path: Path, run_here):
    script, cache = tmp_path / "script.py", tmp_path / "cache"
    script.write_text(SCRIPT)
    assert run_here(script, cache) == ["42", "0", "True"]
    assert run_here(script, cache) == ["42", "1", "True"]
    for suffix in ("nbi", "nbc"):  # what is damaged is made again
        for path in cache.rglob(f"*.{suffix}"):
            path.write_bytes(b"damaged")
        assert run_here(script, cache) == ["42", "0", "True"]
        assert run_here(script, cache) == ["42", "1", "True"]


@pytest.mark.slow
def test_of_processes_that_begin_together_one_compiles(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = os.environ | {"DSE_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, script]
    begun = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert sorted(process.communicate()[0].split()[1] for process in begun) == ["0", "1"]


def test_without_a_folder_each_process_compiles(tmp_path: Path, run_here):
    script, taken = tmp_path / "script.py", tmp_path / "taken"
    script.write_text(SCRIPT)
    taken.write_text("a file where the folder would be")
    assert run_here(script, taken) == ["42", "0", "True"]


@pytest.mark.slow
def test_where_nothing_can_be_kept_each_process_compiles(tmp_path: Path):
    script = tmp_path / "script.py"
    limit = "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    script.write_text(f"{limit}resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n{SCRIPT}")
    environment = os.environ | {"DSE_CACHE": str(tmp_path / "cache")}
    assert subprocess.check_output([sys.executable, script], env=environment) == b"42 0 True\n"

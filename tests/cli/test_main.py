"""How the command line ends: a mistake of the user's, of ours, or of what is installed here is one line."""

import subprocess
import sys
from importlib import import_module

import pytest

from dse.cli.main import run


@pytest.fixture
def run_broken(run_dse, monkeypatch):
    """`run_broken(fails)`: `dse gpus` where reading the GPUs calls `fails`, or raises it."""

    def run_broken(fails):
        def known():
            raise fails

        known = known if isinstance(fails, Exception) else fails
        monkeypatch.setattr("dse.hardware.gpus.table.known", known)
        return run_dse("gpus")

    return run_broken


OURS = "(a mistake of dse: please report it; dse --traceback COMMAND shows more)"


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ZeroDivisionError("a\nb"), 1, f"ZeroDivisionError: a b {OURS}"),
        (TimeoutError("timed out after 5 s."), 1, f"TimeoutError: timed out after 5 s. {OURS}"),
        (RuntimeError("Unable to initialize backend"), 1, "RuntimeError: Unable to initialize backend (a m"),
        (ValueError("JAX_NONSENSE should be 1"), 2, "environment: found JAX_NONSENSE=x, expected another"),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory"), 2, "memory: found too little, expected a"),
        (FileNotFoundError(2, "No usable temporary directory"), 2, "folder of temporary files: cannot write"),
        (FileNotFoundError(2, "No such file or directory", "gone"), 2, "gone: No such file or directory"),
        (MemoryError("Unable to allocate 9 TiB"), 2, "memory: found too little, expected a smaller problem:"),
        (OSError(24, "Too many open files"), 2, "open files: found too little, expected more: Too many"),
    ],
)
def test_whatever_fails_is_one_line(error, code, line, run_broken, monkeypatch):
    monkeypatch.setenv("JAX_NONSENSE", "x")
    ran = run_broken(error)
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.startswith(f"dse: {line}")
    assert ran.err.count("\n") == 1


def test_where_it_went_wrong_can_be_seen(run_broken):
    run_broken(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        run(["--traceback", "gpus"])


@pytest.mark.parametrize("problem", ["ImportError('libx.so: no such file')", "OSError('undefined symbol')"])
def test_a_package_that_cannot_be_imported_is_named(run_broken, monkeypatch, tmp_path, problem):
    (tmp_path / "broken_package.py").write_text(f"raise {problem}\n")
    monkeypatch.syspath_prepend(tmp_path)
    ran = run_broken(lambda: import_module("broken_package"))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("dse: broken_package: found one that cannot be imported (")
    assert ran.err.count("\n") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="names are bytes there")
def test_a_name_that_is_no_utf8(run_dse, tmp_path):
    ran = run_dse("sweep", "mat_naive", "-g", "a4000", "-m", "roofline", "-o", tmp_path / "a\udcff.parquet")
    assert (ran.code, ran.out) == (2, "")
    assert "a\\udcff.parquet', which is no UTF-8, expected a file named in UTF-8" in ran.err


def test_a_command_does_not_import_the_others():
    code = "import sys; from dse.cli.main import run; sys.argv[1:] = ['gpus', '--help']\n"
    code += "try: run()\nfinally: print([name for name in sys.modules if name.startswith('dse.cli.')])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = ran.stdout.splitlines()[-1]
    assert ("'dse.cli.gpus'" in modules, "'dse.cli.rank'" in modules) == (True, False)

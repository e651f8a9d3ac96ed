"""The table of commands."""

import re
import subprocess
import sys
from importlib import import_module
from pkgutil import iter_modules

import pytest

from dse import cli
from dse.cli.commands import COMMANDS, command
from dse.cli.main import run


def test_every_module_with_a_command_is_a_row():
    modules = {module.name: import_module(f"dse.cli.{module.name}") for module in iter_modules(cli.__path__)}
    commands = {name for name, module in modules.items() if hasattr(module, "app")} - {"main"}
    assert commands == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_begins_with_the_line_of_the_command_and_has_an_example(run_dse, name):
    made = command(name)
    assert made.help.split("\n\n")[0] == COMMANDS[name]
    shown = name.replace("_", "-")
    below = [shown, *(f"{shown} {each}" for each in getattr(made, "commands", ()))]
    assert any(re.search(f"Examples?: dse {each}", run_dse(*each.split(), "--help").out) for each in below)


def test_a_command_does_not_import_the_others():
    code = "import sys; from dse.cli.main import run; sys.argv[1:] = ['gpus', '--help']\n"
    code += "try: run()\nfinally: print([name for name in sys.modules if name.startswith('dse.cli.')])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = ran.stdout.splitlines()[-1]
    assert "'dse.cli.gpus'" in found
    assert "'dse.cli.rank'" not in found


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


def test_a_mistake_of_ours_is_one_line(run_broken):
    ran = run_broken(ZeroDivisionError("a\nb"))
    assert (ran.code, ran.out) == (1, "")
    hint = "a mistake of dse: please report it; dse --traceback COMMAND shows more"
    assert ran.err == f"dse: ZeroDivisionError: a b ({hint})\n"


def test_where_it_went_wrong_can_be_seen(run_broken):
    run_broken(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        run(["--traceback", "gpus"])


def test_a_file_that_no_command_expected_to_fail_is_named(run_broken, tmp_path):
    ran = run_broken((tmp_path / "gone").read_text)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"dse: {tmp_path / 'gone'}: No such file or directory\n"


def test_what_a_library_waits_for_in_vain_is_not_standard_output(run_broken):
    ran = run_broken(TimeoutError("timed out after 5 s."))
    assert ran.code == 1
    assert ran.err.startswith("dse: TimeoutError: timed out after 5 s. (a mistake of dse:")


@pytest.mark.parametrize("problem", ["ImportError('libx.so: no such file')", "OSError('undefined symbol')"])
def test_a_package_that_cannot_be_imported_is_named(run_dse, monkeypatch, tmp_path, problem):
    (tmp_path / "broken_package.py").write_text(f"raise {problem}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("dse.cli.inputs.gpus", lambda *given: import_module("broken_package"))
    ran = run_dse("rank", "mat_naive", "-g", "a4000")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("dse: broken_package: found one that cannot be imported (")
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (ValueError("JAX_NONSENSE should be 1"), "environment: found JAX_NONSENSE=x, expected another value"),
        (
            RuntimeError("RESOURCE_EXHAUSTED: Out of memory"),
            "memory: found too little, expected a smaller",
        ),
        (
            RuntimeError("Unable to initialize backend"),
            "RuntimeError: Unable to initialize backend (a mistake",
        ),
        (
            FileNotFoundError(2, "No usable temporary directory"),
            "folder of temporary files: cannot write: No",
        ),
    ],
)
def test_what_the_environment_does_is_named(error, found, run_broken, monkeypatch):
    monkeypatch.setenv("JAX_NONSENSE", "x")
    ran = run_broken(error)
    assert ran.err.startswith(f"dse: {found}")
    assert len(ran.err.splitlines()) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="names are bytes there")
def test_a_name_that_is_no_utf8(run_dse, tmp_path):
    out = tmp_path / "a\udcff.parquet"
    ran = run_dse("sweep", "mat_naive", "-g", "a4000", "-m", "roofline", "-o", str(out))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("dse: name: found ")
    assert "a\\udcff.parquet', which is no UTF-8, expected a file named in UTF-8" in ran.err
    assert len(ran.err.splitlines()) == 1

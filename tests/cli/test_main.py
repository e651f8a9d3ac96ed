"""The table of commands."""

from importlib import import_module
from pkgutil import iter_modules

import pytest

from dse import cli
from dse.cli.main import COMMANDS, run


def test_every_module_with_a_command_is_a_row():
    modules = {module.name: import_module(f"dse.cli.{module.name}") for module in iter_modules(cli.__path__)}
    commands = {name for name, module in modules.items() if hasattr(module, "app")} - {"main"}
    assert commands == set(COMMANDS)
    assert len(COMMANDS) == len(commands)


def test_a_mistake_of_ours_is_one_line(run_dse, monkeypatch):
    def fails():
        raise ZeroDivisionError("a\nb")

    monkeypatch.setattr("dse.gpus.read.names", fails)
    ran = run_dse("gpus")
    assert (ran.code, ran.out) == (1, "")
    hint = "a mistake of dse: please report it; dse --traceback COMMAND shows more"
    assert ran.err == f"dse: ZeroDivisionError: a b ({hint})\n"


def test_where_it_went_wrong_can_be_seen(monkeypatch):
    def fails():
        raise ZeroDivisionError

    monkeypatch.setattr("dse.gpus.read.names", fails)
    with pytest.raises(ZeroDivisionError):
        run(["--traceback", "gpus"])


def test_a_file_that_no_command_expected_to_fail_is_named(run_dse, monkeypatch, tmp_path):
    monkeypatch.setattr("dse.gpus.read.names", lambda: (tmp_path / "gone").read_text())
    ran = run_dse("gpus")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"dse: {tmp_path / 'gone'}: No such file or directory\n"


def test_what_a_library_waits_for_in_vain_is_not_standard_output(monkeypatch, capsys):
    def late(*arguments, **options):
        raise TimeoutError("timed out after 5 s.")

    monkeypatch.setattr("dse.cli.main.app", late)
    with pytest.raises(SystemExit) as end:
        run(["gpus"])
    assert end.value.code == 1
    assert capsys.readouterr().err.startswith("dse: TimeoutError: timed out after 5 s. (a mistake of dse:")

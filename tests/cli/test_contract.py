"""What holds of every command: its help, that help is light, and names that the shell completes."""

import json
import re
from importlib import import_module
from pkgutil import iter_modules

import pytest

from dse import cli
from dse.cli.commands import COMMANDS, command
from dse.cli.inputs.completion import complete_gpus, complete_kernels, complete_models
from dse.cli.options import App

SUBCOMMANDS = [
    f"{name.replace('_', '-')} {inner}".strip()
    for name in COMMANDS
    for inner in ("", *getattr(command(name), "commands", {}))
]


def test_every_module_with_a_command_is_a_row():
    modules = {module.name: import_module(f"dse.cli.{module.name}") for module in iter_modules(cli.__path__)}
    apps = {name: vars(module).get("app", vars(module).get(name)) for name, module in modules.items()}
    commands = {name for name, app in apps.items() if isinstance(app, App)}
    assert commands == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_begins_with_the_line_of_a_command_and_has_an_example(name, run_dse):
    assert command(name).help.split("\n\n")[0] == COMMANDS[name]
    below = [words for words in SUBCOMMANDS if words.split()[0] == name.replace("_", "-")]
    assert any(re.search(f"Examples?: dse {words}", run_dse(*words.split(), "--help").out) for words in below)


@pytest.mark.parametrize("words", SUBCOMMANDS)
def test_help_is_a_screen_and_a_half_and_names_all_options(run_dse, monkeypatch, words):
    monkeypatch.setenv("COLUMNS", "80")
    short = run_dse(*words.split(), "--help")
    assert short.code == 0
    assert len(short.out.splitlines()) <= 64
    monkeypatch.setenv("COLUMNS", "200")  # where no name is cut
    short, whole = (run_dse(*words.split(), option) for option in ("--help", "--help-all"))
    named, options = (set(re.findall(r"--[a-z][a-z-]+", ran.out)) for ran in (short, whole))
    assert options <= named


def test_no_help_imports_what_is_heavy(run_python):
    ran = run_python(
        f"""
import json, sys
from dse.cli.main import run
for words in {[words.split() for words in SUBCOMMANDS]!r}:
    try: run([*words, "--help"])
    except SystemExit: pass
print(json.dumps(sorted({{"jax", "numpy", "altair", "optuna", "pyarrow"}} & set(sys.modules))))
"""
    )
    assert json.loads(ran.out.splitlines()[-1]) == []


def test_names_are_completed():
    assert complete_kernels("conv") == ["convolution", "convolution_direct", "convolution_shared"]
    assert complete_gpus("v100_s") == ["v100-sxm2-16gb", "v100-sxm2-32gb"]
    assert complete_gpus("rtx-3080-1") == ["rtx-3080-12-gb"]
    assert complete_models("pi") == ["pipeline"]


def test_the_shell_asks_for_them_and_nothing_heavy_is_imported(run_python, monkeypatch):
    words = "dse rank convolution --gpu v100-s"
    for name, value in {"_DSE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "4"}.items():
        monkeypatch.setenv(name, value)
    ran = run_python(
        """
import sys
from dse.cli.main import app
try: app(prog_name="dse", standalone_mode=False)
finally: print({"jax", "numpy"} & set(sys.modules), file=sys.stderr)
"""
    )
    assert ran.out.split() == ["v100-sxm2-16gb", "v100-sxm2-32gb"]
    assert ran.err.startswith("set()\n")

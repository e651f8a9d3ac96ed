"""The table of commands."""

from importlib import import_module
from pkgutil import iter_modules

from dse import cli
from dse.cli.main import COMMANDS


def test_every_module_with_a_command_is_a_row():
    modules = {module.name: import_module(f"dse.cli.{module.name}") for module in iter_modules(cli.__path__)}
    commands = {name for name, module in modules.items() if hasattr(module, "app")} - {"main"}
    assert commands == set(COMMANDS)
    assert len(COMMANDS) == len(commands)

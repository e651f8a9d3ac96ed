"""The commands, by name, each imported when it is used: `dse --help` knows one line of each."""

from importlib import import_module
from typing import Any

import typer
import typer.core
import typer.main

from dse.cli import room
from dse.cli.options import MORE, CommandGroup, flow

# A command is a row here, and the module of dse.cli of that name. `dse --help` lists them in this order.
# fmt: off
COMMANDS = {
    "rank": "Rank the launch configurations of a kernel on a GPU by predicted time.",
    "sweep": "Predict every configuration of every kernel at every size on every GPU by every model.",
    "compare": "Compare predictions with measured times, one row a model (all, unless --model is given).",
    "accuracy": "Score models on the measured spaces of a folder (`dse accuracy DIR`), or as a "
        "subcommand says.",
    "fit": "Fit a GPU's λ, Λ and clock to measured times, by gradient; with spreads, and "
        "errors on data held out.",
    "prune": "Keep the configurations among which, but for the stated risk, one is nearly the fastest.",
    "tune": "Find the fastest configuration with few measurements.",
    "search": "Search the parameters of one kernel, or of several variants that do the same "
        "work, with Optuna.",
    "simulate": "Simulate one configuration on one SM: cycles, IPC, how busy each pipe is, and what binds.",
    "characterise": "Count what a kernel's source does, without a GPU.",
    "occupancy_curve": "Throughput against resident warps by each model (all, unless --model is "
        "given), for one configuration.",
    "report": "Draw results as one page that needs no network: a table, and charts that "
        "choose and filter together.",
    "table": "Say the best configuration of a kernel for each problem size, without a GPU.",
    "reproduce": "Compute the papers' tables and examples again and tell where, and why, the "
        "numbers differ.",
    "gpus": "List the GPUs.",
    "kernels": "List the kernels: the work each does, the size of its space before "
        "constraints, its other names.",
    "models": "List the models.",
    "measure": "Measure a GPU, and kernels on it. Takes the extra `cuda` and NVIDIA's driver; no nvcc.",
    "cache": "Say where what was compiled and counted is kept, and how large it is; or clear it.",
    "doctor": "Show versions, devices, cores, caches, which extras are installed, and what is "
        "missing for what.",
}
# fmt: on


# Options that few need: --help only names them.
RARE = (
    *("--seed", "--limit", "--batch", "--pays", "--starts", "--method", "--shared", "--sample", "--compile"),
    *("--space", "--prior", "--cascade", "--refit", "--window", "--device", "--arch", "--dry-run", "--cases"),
    *("--library", "--repeats", "--graph", "--enqueue", "--columns", "--wide"),
)


def command(name: str) -> Any:
    """Import a command of COMMANDS, and return it as typer has it."""
    holder = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=False)
    holder.add_typer(import_module(f"dse.cli.{name}").app)
    flow(holder)
    return typer.main.get_group(holder).commands[_shown(name)]


def _shorten(command: Any) -> None:
    """Leave out of the help of a command, and of its subcommands, all panels but the first, and RARE; and
    what a flag or a number is called, whose column would take the room of the text.
    """
    panels: dict[str, list[str]] = {}
    for parameter in command.params:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        elif any(getattr(parameter, end, None) is not None for end in ("min", "max")):
            parameter.metavar = parameter.metavar or "N"
        panel = getattr(parameter, "rich_help_panel", None) or (MORE if parameter.opts[0] in RARE else None)
        if panel:
            panels.setdefault(panel, []).append(parameter.opts[0])
            parameter.hidden = True
    if panels:
        listed = "; ".join(f"{panel}: {' '.join(names)}" for panel, names in panels.items())
        command.epilog = f"[bold]--help-all[/bold] explains more options. {listed}\n\n{command.epilog or ''}"
    for inner in getattr(command, "commands", {}).values():
        _shorten(inner)


class Commands(CommandGroup):
    """The command `dse`, of the commands of COMMANDS."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {
            _shown(name): _Later(name=_shown(name), help=line) for name, line in COMMANDS.items()
        }


class _Later(typer.core.TyperCommand):
    """A command that is imported when its arguments are read."""

    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **settings: Any) -> Any:
        if (
            self.name != "doctor"
            and not {"--help", "--help-all"} & set(args)
            and not settings.get("resilient_parsing")
        ):
            room.check()
        made = command(str(self.name).replace("-", "_"))
        if "--help-all" in args:
            args = ["--help" if text == "--help-all" else text for text in args]
        elif "--help" in args:
            _shorten(made)
        return made.make_context(info_name, args, *rest, **settings)


def _shown(name: str) -> str:
    return name.replace("_", "-")

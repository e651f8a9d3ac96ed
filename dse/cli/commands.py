"""Lazy registry of commands: `dse --help` needs only one line of each."""

import sys
from collections import Counter
from importlib import import_module
from typing import Any

import typer
import typer.core
import typer.main

from dse.cli.options import MORE, CommandGroup
from dse.errors import DseError

# A command is a row here and a module of dse.cli. `dse --help` lists them in this order.
# fmt: off
COMMANDS = {
    "rank": "Rank the launch configurations of a kernel on a GPU by predicted time.",
    "sweep": "Predict all configurations of kernels at all sizes on all GPUs with all models.",
    "compare": "Compare predictions with measured times, one row a model (all, unless --model is given).",
    "accuracy": "Score models on the measured spaces of a folder (`dse accuracy DIR`), or by a "
        "subcommand.",
    "fit": "Fit a GPU's λ, Λ and clock to measured times, with spreads and held-out errors.",
    "prune": "Keep the configurations worth measuring, with a stated risk of missing a near-optimum.",
    "tune": "Find the fastest configuration with few measurements.",
    "search": "Search the parameters of one kernel, or of several variants of the same work, with Optuna.",
    "simulate": "Simulate one configuration on one SM: cycles, IPC, utilization of pipes, bottleneck.",
    "characterise": "Count the work in a kernel's source, without a GPU.",
    "occupancy_curve": "Show throughput against resident warps for one configuration, by all models or "
        "those of --model.",
    "report": "Draw results as one offline page: a table, and linked charts.",
    "table": "Find the best configuration of a kernel for each problem size, without a GPU.",
    "reproduce": "Recompute the papers' tables and examples, and show where and why numbers differ.",
    "gpus": "List the GPUs.",
    "kernels": "List the kernels: their work, the size of the space before constraints, other names.",
    "models": "List the models.",
    "measure": "Measure a GPU, and kernels on it. Needs the extra `cuda` and NVIDIA's driver; no nvcc.",
    "cache": "Show the location and size of cached code and counts, or clear them.",
    "doctor": "Show versions, devices, cores, caches and installed extras, and what is missing.",
}
# fmt: on


# Options that --help only names.
RARE = (
    *("--seed", "--limit", "--batch", "--pays", "--starts", "--method", "--shared", "--sample", "--compile"),
    *("--space", "--prior", "--cascade", "--refit", "--window", "--device", "--arch", "--dry-run", "--cases"),
    *("--library", "--repeats", "--graph", "--enqueue", "--columns", "--wide"),
)
# Limits of the process below which JAX aborts, and the shell's option.
LEAST_BYTES = {"RLIMIT_AS": (2.0e9, "ulimit -v"), "RLIMIT_DATA": (1.0e9, "ulimit -d")}


def command(name: str) -> Any:
    """Import a command of COMMANDS as a typer command."""
    holder = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    module = vars(import_module(f"dse.cli.{name}"))
    holder.add_typer(module.get("app") or module[name])
    return typer.main.get_group(holder).commands[_shown(name)]


def _shorten(command: Any) -> None:
    """Hide all panels but the first, RARE options, and metavars of flags and numbers in a command's help."""
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
    """The command `dse` with the subcommands of COMMANDS."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {
            _shown(name): _LazyCommand(name=_shown(name), help=line) for name, line in COMMANDS.items()
        }


def check_limits() -> None:
    """Check memory limits under which JAX would abort, before it starts. **Raises:** DseError."""
    if sys.platform != "linux":
        return
    import resource

    for name, (least, option) in LEAST_BYTES.items():
        soft = resource.getrlimit(getattr(resource, name))[0]
        if soft != resource.RLIM_INFINITY and soft < least:
            limit = f"found a limit of {soft / 1e9:.3g} GB ({option})"
            raise DseError(f"memory: {limit}, expected {least / 1e9:g} GB or more")


class _LazyCommand(typer.core.TyperCommand):
    """A command that is imported when its arguments are parsed."""

    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **settings: Any) -> Any:
        if (
            self.name != "doctor"
            and not {"--help", "--help-all"} & set(args)
            and not settings.get("resilient_parsing")
        ):
            check_limits()
        imported = command(str(self.name).replace("-", "_"))
        if "--help-all" in args:
            args = ["--help" if text == "--help-all" else text for text in args]
        elif "--help" in args:
            _shorten(imported)
        context = imported.make_context(info_name, list(args), *rest, **settings)
        if isinstance(imported, typer.core.TyperGroup):  # its commands have the options
            return context
        _, _, order = imported.make_parser(context).parse_args(list(args))
        for option, times in Counter(order).items():
            if times > 1 and not (option.multiple or option.is_flag):  # the last one would count
                raise DseError(f"{option.opts[0]}: found it {times} times, expected it once")
        return context


def _shown(name: str) -> str:
    return name.replace("_", "-")

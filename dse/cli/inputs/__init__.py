"""Inputs shared by commands: kernels, GPUs, models and `--set`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dse.cli.inputs.completion import complete_gpus, complete_kernels, complete_models
from dse.cli.inputs.given import LaunchOptions
from dse.cli.inputs.kernels import (
    description,
    gpus,
    in_words,
    kernel,
    kernels_of_work,
    several,
    several_descriptions,
)
from dse.cli.inputs.model_choice import SimulatorOptions, closed_form, models
from dse.cli.inputs.values import in_seconds, lists, settings

if TYPE_CHECKING:
    from dse.kernels.counts import Counts, Number

__all__ = [  # and the options below
    "LaunchOptions",
    "SimulatorOptions",
    "closed_form",
    "description",
    "gpus",
    "in_seconds",
    "in_words",
    "kernel",
    "kernels_of_work",
    "lists",
    "models",
    "settings",
    "several",
    "several_descriptions",
]


def _kernel(text: str, metavar: str = "KERNEL") -> Any:
    return typer.Argument(metavar=metavar, help=text, autocompletion=complete_kernels)


def _gpu(text: str) -> Any:
    return typer.Option("--gpu", "-g", metavar="GPU", help=text, autocompletion=complete_gpus)


def _model(text: str) -> Any:
    return typer.Option("--model", "-m", metavar="MODEL", help=text, autocompletion=complete_models)


KernelArgument = Annotated[str, _kernel("A kernel of `dse kernels`, a kernel.toml, or a T1.json.")]
SourceArgument = Annotated[
    str,
    _kernel(
        "A kernel of `dse kernels`, or a file: kernel.toml, T1.json, .py:KERNEL (Triton), .cu, .ptx, "
        ".cubin, .sass."
    ),
]
KernelsArgument = Annotated[
    list[str], _kernel("Kernels of `dse kernels`, or kernel.toml files.", "KERNEL...")
]
PriorOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--prior",
        metavar="FILE",
        help="Recorded times of the kernel on another GPU; repeatable.",
    ),
]
GpuOption = Annotated[str, _gpu("A GPU of `dse gpus`, or a GPU file.")]
GpusOption = Annotated[list[str], _gpu("A GPU of `dse gpus`, or a GPU file; repeatable.")]
ModelsOption = Annotated[list[str] | None, _model("A model of `dse models`; repeatable.")]
ModelOption = Annotated[str, _model("A model of `dse models`.")]
ClosedFormOption = Annotated[str | None, _model("A closed form of `dse models`.")]
MOST_SEED = 2**32 - 1  # that NumPy takes
SourceOption = Annotated[
    bool, typer.Option("--source", help="Take counts from the source instead of the description.")
]
SampleOption = Annotated[
    int | None,
    typer.Option(
        "--sample",
        metavar="N",
        min=1,
        help="A random sample of N configurations (with measured times: that ran).",
    ),
]
CompileOption = Annotated[
    int | None,
    typer.Option(
        "--compile",
        metavar="N",
        help="From source: compile this many configurations, and estimate the others from them.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Fix a parameter or change a problem size; repeatable."),
]
SpaceOption = Annotated[
    Path | None,
    typer.Option(
        "--space",
        metavar="FILE",
        help="Take parameters, values and conditions from a T1 problem, or configurations from a table as "
        "written by -o.",
    ),
]


@dataclass(frozen=True)
class ChoiceOptions:
    """Options for the candidates that a closed form chooses from."""

    prior: PriorOption = None
    model: ClosedFormOption = None
    changed: SetOption = None
    space: SpaceOption = None
    source: SourceOption = False
    compiled: CompileOption = None

    @property
    def values(self) -> dict[str, "Number"]:
        """The values of --set."""
        return settings(self.changed)

    def kernel(self, name: str, launch: LaunchOptions) -> tuple["Counts", dict[str, "Number"]]:
        """Return the kernel and its sizes; see `kernel`."""
        values = self.values
        return kernel(name, values, self.space, launch.given(values), self.source, self.compiled)

"""What commands take in common: their options here, and what the library wants of them in the files beside.

Kernels, GPUs, models and `--set`.
"""

from pathlib import Path
from typing import Annotated

import typer

from dse.cli.inputs.completion import complete_gpus, complete_kernels, complete_models
from dse.cli.inputs.given import launch
from dse.cli.inputs.kernels import (
    description,
    gpus,
    in_words,
    kernel,
    kernels_of_work,
    several,
    several_descriptions,
)
from dse.cli.inputs.model_choice import closed_form, models, simulated
from dse.cli.inputs.values import lists, settings
from dse.models import MODELS

__all__ = [  # and the options below
    "closed_form",
    "description",
    "gpus",
    "in_words",
    "kernel",
    "kernels_of_work",
    "launch",
    "lists",
    "models",
    "settings",
    "several",
    "several_descriptions",
    "simulated",
]

KernelArgument = Annotated[
    str,
    typer.Argument(
        metavar="KERNEL",
        help="A kernel of `dse kernels`, a kernel.toml, or a T1.json.",
        autocompletion=complete_kernels,
    ),
]
SourceArgument = Annotated[
    str,
    typer.Argument(
        metavar="KERNEL",
        help="A kernel of `dse kernels`, or a file: kernel.toml, T1.json, .py:KERNEL (Triton), .cu, .ptx, "
        ".cubin, .sass.",
        autocompletion=complete_kernels,
    ),
]
KernelsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="KERNEL...",
        help="Kernels of `dse kernels`, or kernel.toml files.",
        autocompletion=complete_kernels,
    ),
]
PriorOption = Annotated[
    list[Path] | None,
    typer.Option("--prior", metavar="FILE", help="Recorded times of the kernel on another GPU; repeatable."),
]
GpuOption = Annotated[
    str,
    typer.Option(
        "--gpu", "-g", metavar="GPU", help="A GPU of `dse gpus`, or a GPU file.", autocompletion=complete_gpus
    ),
]
GpusOption = Annotated[
    list[str],
    typer.Option(
        "--gpu",
        "-g",
        metavar="GPU",
        help="A GPU of `dse gpus`, or a GPU file; repeatable.",
        autocompletion=complete_gpus,
    ),
]
ModelsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        metavar="MODEL",
        help=f"One of {', '.join(MODELS)}; repeatable.",
        autocompletion=complete_models,
    ),
]
ModelOption = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        metavar="MODEL",
        help=f"One of {', '.join(MODELS)}.",
        autocompletion=complete_models,
    ),
]
ClosedFormOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="MODEL",
        help="A closed form of `dse models`.",
        autocompletion=complete_models,
    ),
]
SchedulerOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Of pipeline: which ready warp goes first, rr (default), gto or oldest."
    ),
]
OrderOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Of pipeline: a warp's instructions in program order (default) or dataflow order.",
    ),
]
MOST_SEED = 2**32 - 1  # that NumPy takes
GroupsOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        max=2**31 - 1,
        help="Of pipeline: simulate so many blocks of one SM from start to end, two rounds at least; "
        "without it, samples are.",
    ),
]
FunctionOption = Annotated[
    str | None,
    typer.Option("--function", metavar="NAME", help="The kernel, where a file has several: scale, scale<4>."),
]
BlockOption = Annotated[
    str | None,
    typer.Option("--block", metavar="X[,Y[,Z]]", help="Threads of a block, where the file does not say it."),
]
GridOption = Annotated[
    str | None,
    typer.Option("--grid", metavar="X[,Y[,Z]]", help="Blocks, where the file does not say it."),
]
DefineOption = Annotated[
    list[str] | None,
    typer.Option("--define", "-D", metavar="NAME=VALUE", help="A macro that is no parameter; repeatable."),
]
ArgumentOption = Annotated[
    list[str] | None,
    typer.Option(
        "--arg",
        metavar="[NAME=]VALUE",
        help="An argument: a number, SIZE[:TYPE[:VALUES]] of an array, or ? if it is not known. VALUES is an "
        "expression of index and random. By name or in order; repeatable. Those left out are not known.",
    ),
]
SourceOption = Annotated[
    bool, typer.Option("--source", help="Count what the CUDA source does, not what the description says.")
]
SampleOption = Annotated[
    int | None,
    typer.Option("--sample", metavar="N", min=1, help="So many configurations only, taken at random."),
]
CompileOption = Annotated[
    int | None,
    typer.Option(
        "--compile",
        metavar="N",
        help="Of a source: compile so many configurations, and estimate the others from them.",
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="N",
        min=1,
        max=1024,
        help="Compile and run sources on so many processes, by Dask.",
    ),
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Compile and run sources on the Dask cluster of this scheduler: tcp://HOST:8786.",
    ),
]
SharedOption = Annotated[
    int | None,
    typer.Option("--shared", metavar="BYTES", min=0, help="Shared memory of a block that the launch adds."),
]
TuneOption = Annotated[
    list[str] | None,
    typer.Option(
        "--tune",
        metavar="NAME=V1,V2,...",
        help="A macro of a .cu file and its values; --block and --grid may be expressions of it; repeatable.",
    ),
]
SignatureOption = Annotated[
    str | None,
    typer.Option(
        "--signature",
        metavar="TYPE,TYPE,...",
        help="Of a Triton kernel: types of its arguments as Triton writes them, in order or as NAME=TYPE: "
        "*fp16, i32, tensordesc<fp16[BLOCK_M,BLOCK_K]>, or a number that is compiled in.",
    ),
]
ConstexprOption = Annotated[
    list[str] | None,
    typer.Option(
        "--constexpr",
        metavar="NAME=V1,V2,...",
        help="A constant of a Triton kernel and its values, or one word or type; repeatable.",
    ),
]
WarpsOption = Annotated[
    str | None, typer.Option("--num-warps", metavar="V1,V2,...", help="Of a Triton kernel; 4 without it.")
]
StagesOption = Annotated[
    str | None, typer.Option("--num-stages", metavar="V1,V2,...", help="Of a Triton kernel; 3 without it.")
]
CtasOption = Annotated[
    str | None, typer.Option("--num-ctas", metavar="V1,V2,...", help="Of a Triton kernel; 1 without it.")
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
        help="Take parameters, values and conditions from a T1 problem; or only those configurations that "
        "a table lists, as -o writes it.",
    ),
]

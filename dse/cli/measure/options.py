"""Options shared by the commands of `dse measure`."""

from pathlib import Path
from typing import Annotated

import typer

from dse.cli import inputs

ARCHITECTURES = (80, 90)  # default of a dry run

DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Compile everything and list what would run; needs no GPU.")
]
ArchOption = Annotated[
    list[int] | None,
    typer.Option(
        "--arch",
        metavar="N",
        help="For --dry-run: compute capability, 90 for 9.0; repeatable; default: 80, 90.",
    ),
]
BudgetOption = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", min=0.0, help="Time limit; earlier measurements are kept."),
]
DeviceOption = Annotated[int, typer.Option("--device", metavar="N", min=0, help="Which GPU, of several.")]
KernelsArgument = Annotated[
    list[str], typer.Argument(metavar="KERNEL...", help="Kernels of `dse kernels` with source.")
]
SampleOption = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="A random sample of N configurations of each.")
]
SeedOption = Annotated[
    int, typer.Option(min=0, max=inputs.MOST_SEED, help="Of the order, and so of --sample.")
]
CasesOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE.csv", help="Problem sizes as columns, one row a case."),
]

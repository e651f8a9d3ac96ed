"""`dse sweep`: whole spaces of kernels × GPUs × models into one file."""

from pathlib import Path
from typing import Annotated

import typer

from dse.cli import inputs
from dse.models import CLOSED_FORMS

app = typer.Typer(rich_markup_mode="rich")

EXAMPLE = "Example: [bold]dse sweep convolution gemm --gpu a100 --gpu rtx-3090 -o sweep.parquet[/bold]"


@app.command(epilog=EXAMPLE)
def sweep(
    kernel: inputs.KernelsArgument,
    gpu: inputs.GpusOption,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The .parquet file to write.")],
    model: inputs.ModelsOption = None,
    changed: inputs.SetOption = None,
    scheduler: inputs.SchedulerOption = None,
    order: inputs.OrderOption = None,
    groups: inputs.GroupsOption = None,
) -> None:
    """Predict every configuration of every kernel on every GPU by every model.

    These are all closed forms, unless --model is given; what is simulated takes a thousand times as long.

    One row a kernel, GPU, model and configuration. An interrupted sweep goes on where it stopped when it is
    started again. --set applies to the kernels that have such a parameter or size.
    """
    models = inputs.models(model, CLOSED_FORMS, scheduler, order, groups)
    values = inputs.settings(changed)
    from dse.evaluate.table import SweepJob, sweep
    from dse.report.show import progress

    kernels, problems = zip(*inputs.several(kernel, values), strict=True)
    job = SweepJob(kernels, problems, tuple(inputs.gpus(gpu)), models)
    count = sweep(job, out, progress)
    print(f"{out}: {count:,} rows")

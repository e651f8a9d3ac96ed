"""`dse rank`: rank the launch configurations of one kernel on one GPU."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dse.cli import inputs
from dse.cli.options import ExecutorOptions, Output, command
from dse.errors import DseError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dse.evaluate.rank import Ranking


@command(
    "Example: [bold]dse rank convolution --gpu a100-pcie-40gb --top 20 --set use_shmem=1[/bold]; "
    "[bold]dse rank blur.cu -g a100-pcie-40gb --tune BLOCK=64,128,256 --tune TILE=1,2,4 --block BLOCK "
    "--grid 'ceil(16777216 / (BLOCK * TILE))' --arg n=16777216[/bold]; "
    "[bold]dse rank softmax.py:softmax -g h100-sxm --signature '*fp32,*fp32,i32,i32' --constexpr "
    "BLOCK=1024,2048 --num-warps 2,4,8 --grid rows --set rows=4096 --set columns=1000[/bold]"
)
def rank(
    kernel: inputs.SourceArgument,
    gpu: inputs.GpuOption,
    *,
    model: inputs.ModelsOption = None,
    top: Annotated[int, typer.Option(min=0, help="Configurations to show; 0 shows all.")] = 10,
    diverse: Annotated[
        bool,
        typer.Option("--diverse", help="Show one of each group of ties (within 0.1 %), the most different."),
    ] = False,
    changed: inputs.SetOption = None,
    space: inputs.SpaceOption = None,
    launch: inputs.LaunchOptions,
    simulator: inputs.SimulatorOptions,
    source: inputs.SourceOption = False,
    sample: inputs.SampleOption = None,
    compiled: inputs.CompileOption = None,
    measured: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Measured times (CSV, .csv.gz, Parquet) to add as a column."),
    ] = None,
    refit: Annotated[
        bool,
        typer.Option(
            "--refit",
            help="Order by times refitted to the measured ones, with 95 % intervals and the probabilities "
            "of being the fastest, and within 5 % of it.",
        ),
    ] = False,
    cascade: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL:KEEP,...",
            help="Models one after another, each on the candidates that the previous one kept: a count, or a "
            "share with %: phase:5%,pipeline:200. `source` is the default model on counts from source.",
        ),
    ] = None,
    prior: inputs.PriorOption = None,
    library: Annotated[
        str | None,
        typer.Option(
            metavar="OPERANDS:M,N,K",
            help="The dense product that the kernel computes, as in fp16:M,N,4096 with problem sizes: also "
            "show the predicted time of the vendor's library.",
        ),
    ] = None,
    execution: ExecutorOptions,
    output: Output,
) -> None:
    """Rank the launch configurations of a kernel on a GPU by predicted time.

    Counts come from its description, or from its source with --source or for a T1.json or .cu file, whose
    launch is set by --tune, --block, --grid and --arg. With several models the first one decides the order.
    Launches that cannot run come last, with the reason.
    """
    numbers = inputs.settings(changed)
    counts, problem = inputs.kernel(kernel, numbers, space, launch.given(numbers), source, compiled)
    models = inputs.models(model, simulator=simulator)
    if refit and diverse:
        raise DseError("--diverse: found it with --refit, expected one of the two")
    if cascade is not None and model:
        raise DseError("--cascade: found it with --model, expected one of the two")
    if prior and diverse:
        raise DseError("--prior: expected it without --diverse")
    [gpu_file] = inputs.gpus([gpu])
    from dse import api
    from dse.core.cluster import executing_on
    from dse.report.show import progress

    with executing_on(execution.workers, execution.cluster):
        ranking = api.rank(
            counts,
            gpu_file,
            models,
            problem,
            sample,
            measured,
            progress,
            cascade=cascade,
            refit=refit,
            prior=prior or (),
            library=library,
        )
    rows = ranking.rows(top or None, diverse)
    output.present(rows, title=_title(ranking, len(rows)), units=ranking.units, hidden=ranking.hidden)
    if ranking.levels and output.table:
        title = "Levels; spearman is with the previous level, on shared configurations"
        output.present(ranking.levels, title=title)
    if output.table:
        from dse.report.show import bars

        bars(ranking.speed_of_light, title="Utilization of each pipe at rank 1, in the predicted time")
    sure = "a prediction" if not refit else f"{rows[0]['chance_fastest']:.0%} sure to be the fastest"
    if ranking.tied > 1 and not (diverse or refit or prior):
        others = "rank 2" if ranking.tied == 2 else f"ranks 2 to {ranking.tied:,}"
        sure += f", tied with {others} (--diverse shows one of each group)"
    then = "dse tune measures the most promising, dse prune lists them"
    output.conclude(_finding(ranking, rows[0]), sure=sure, then=then)


def _finding(ranking: "Ranking", first: "Mapping[str, Any]") -> str:
    from dse.report.conclusion import configuration, quantity

    time = first["refitted_s"] if "refitted_s" in first else first["time_s"]
    which = configuration(first, [name for name in ranking.parameters if name not in ranking.hidden])
    count = ranking.levels[0]["configurations"] if ranking.levels else ranking.count
    finding = f"fastest of {count:,}: {which}" if count > 1 else "the only configuration"
    finding += f": {quantity(time)} by {first['model']}"
    if first.get("measured_s"):
        finding += f", measured {quantity(first['measured_s'])}"
    if "library_s" in first:
        finding += f" (the vendor's library: {quantity(first['library_s'])})"
    return finding


def _title(ranking: "Ranking", shown: int) -> str:
    labels = ranking.labels
    title = f"{labels['kernel']} on {labels['gpu']}: {shown:,} best of {ranking.count:,} configurations"
    title += f" by {next(iter(ranking.evaluation.forecasts))}"
    if ranking.impossible:
        title += f" ({ranking.impossible:,} cannot run)"
    if ranking.left_out_error is not None:
        import numpy as np

        half, most = np.nanquantile(ranking.left_out_error, (0.5, 0.9))
        title += (
            f"; {ranking.compiled:,} compiled, the others estimated (leave-one-out: "
            f"median error {half:.1%}, 9 in 10 within {most:.1%})"
        )
    return title

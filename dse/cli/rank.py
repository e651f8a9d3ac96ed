"""`dse rank`: the launch configurations of one kernel on one GPU, fastest first."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dse.cli import inputs
from dse.cli.options import CsvOption, JsonOption, OutOption, WideOption, present
from dse.errors import DseError

app = typer.Typer(rich_markup_mode="rich")


@app.command(
    epilog="Example: [bold]dse rank convolution --gpu a100-pcie-40gb --top 20 --set use_shmem=1[/bold]; "
    "[bold]dse rank blur.cu -g a100-pcie-40gb --tune BLOCK=64,128,256 --tune TILE=1,2,4 --block BLOCK "
    "--grid 'ceil(16777216 / (BLOCK * TILE))' --arg n=16777216[/bold]; "
    "[bold]dse rank softmax.py:softmax -g h100-sxm --signature '*fp32,*fp32,i32,i32' --constexpr "
    "BLOCK=1024,2048 --num-warps 2,4,8 --grid rows --set rows=4096 --set columns=1000[/bold]"
)
def rank(
    kernel: inputs.SourceArgument,
    gpu: inputs.GpuOption,
    model: inputs.ModelsOption = None,
    top: Annotated[int, typer.Option(min=0, help="How many to show; 0 shows all.")] = 10,
    diverse: Annotated[
        bool,
        typer.Option("--diverse", help="Of equal predictions (within 0.1 %) show one, unlike those above."),
    ] = False,
    changed: inputs.SetOption = None,
    space: inputs.SpaceOption = None,
    define: inputs.DefineOption = None,
    function: inputs.FunctionOption = None,
    block: inputs.BlockOption = None,
    grid: inputs.GridOption = None,
    arguments: inputs.ArgumentOption = None,
    shared: inputs.SharedOption = None,
    tune: inputs.TuneOption = None,
    signature: inputs.SignatureOption = None,
    constexpr: inputs.ConstexprOption = None,
    num_warps: inputs.WarpsOption = None,
    num_stages: inputs.StagesOption = None,
    num_ctas: inputs.CtasOption = None,
    scheduler: inputs.SchedulerOption = None,
    order: inputs.OrderOption = None,
    groups: inputs.GroupsOption = None,
    source: inputs.SourceOption = False,
    sample: inputs.SampleOption = None,
    compiled: inputs.CompileOption = None,
    measured: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Measured times (CSV, .csv.gz, Parquet) to show beside."),
    ] = None,
    refit: Annotated[
        bool,
        typer.Option(
            "--refit",
            help="Order by times refitted to the measured ones, with 95 % intervals and the chance of each "
            "to be the fastest, and to be within 5 % of it.",
        ),
    ] = False,
    cascade: Annotated[
        str | None,
        typer.Option(
            "--cascade",
            metavar="MODEL:KEEP,...",
            help="Models one after the other, each on what the one before it kept: a count, or a share "
            "with %. `source` is the default model on what the source does: phase:5%,pipeline:200,source:20.",
        ),
    ] = None,
    prior: inputs.PriorOption = None,
    workers: inputs.WorkersOption = None,
    cluster: inputs.ClusterOption = None,
    json: JsonOption = False,
    csv: CsvOption = False,
    out: OutOption = None,
    wide: WideOption = False,
) -> None:
    """Rank the launch configurations of a kernel on a GPU by predicted time.

    By its description, or by what its CUDA source does: with --source, and for a T1.json or a .cu file, of
    which --tune, --block, --grid and --arg say what is tried. With several models the first one decides the
    order. Launches that cannot run come last, with the reason.
    """
    options = {"num_warps": num_warps, "num_stages": num_stages, "num_ctas": num_ctas}
    numbers = inputs.settings(changed)
    given = inputs.launch(
        function, block, grid, arguments, define, shared, tune, signature, constexpr, options, numbers
    )
    counts, problem = inputs.kernel(kernel, numbers, space, given, source, compiled)
    models = inputs.models(model, scheduler=scheduler, order=order, groups=groups)
    if refit and diverse:
        raise DseError("--diverse: found it with --refit, expected one of the two")
    if refit and (measured is None or not models[0].differentiable):
        stated = f"--model {models[0].name}" if measured else "no --measured"
        raise DseError(f"--refit: found {stated}, expected --measured FILE and a closed form")
    if cascade is not None and (model or refit or prior):
        other = "--model" if model else "--refit" if refit else "--prior"
        raise DseError(f"--cascade: found it with {other}, expected one of the two")
    if prior and (diverse or not models[0].differentiable):
        raise DseError("--prior: expected it without --diverse, and with a closed form")
    [gpu_file] = inputs.gpus([gpu])
    from dse.core.cluster import used
    from dse.evaluate.rank import rank as rank_launches  # imports jax: seconds
    from dse.evaluate.rank import with_measured
    from dse.report.show import progress

    passed: list[dict[str, Any]] = []
    with used(workers, cluster):
        if cascade is None:
            ranking = rank_launches(
                counts, gpu_file.gpu, models, problem, sample, measured, progress, gpu_name=gpu_file.name
            )
        else:
            from dse.evaluate import cascade as cascades

            levels = cascades.read(cascade, counts)
            done = cascades.cascade(levels, gpu_file.gpu, problem, sample, progress, gpu_file.name)
            ranking = with_measured(done.ranking, counts, measured)
            passed = [level.row() for level in done.levels]
    if refit:
        from dse.explore.tune.refit import refitted

        ranking, beside = refitted(ranking, counts, gpu_file, models[0], problem, prior or ())
        shown = [row | more for row, more in zip(ranking.rows(top or None), beside, strict=False)]
    elif prior:
        from dse.explore.tune.refit import with_prior

        ranking, beside = with_prior(ranking, counts, gpu_file, models[0], problem, prior)
        shown = [row | more for row, more in zip(ranking.rows(top or None), beside, strict=False)]
    else:
        shown = ranking.rows(top or None, diverse)
    title = f"{counts.name} on {gpu_file.name}: {len(shown):,} best of {ranking.count:,} configurations"
    title += f" by {next(iter(ranking.evaluation.forecasts))}"
    if ranking.impossible:
        title += f" ({ranking.impossible:,} cannot run)"
    if ranking.left_out_error is not None:
        import numpy as np

        half, most = np.nanquantile(ranking.left_out_error, (0.5, 0.9))
        title += (
            f"; {ranking.compiled:,} compiled, the others estimated (each of these from the rest: "
            f"median error {half:.1%}, 9 in 10 within {most:.1%})"
        )
    table = {"title": title, "units": ranking.units, "hidden": ranking.hidden}
    present(shown, **table, json=json, csv=csv, out=out, wide=wide)
    if not (json or csv or out or diverse or refit or prior) and ranking.tied > 1:
        print(f"Ranks 1 to {ranking.tied:,} are as good as equal; --diverse shows one of each group.")
    if passed and not (json or csv or out):
        present(
            passed,
            title="Levels; spearman is with the level before, on what both saw",
            json=False,
            csv=False,
            out=None,
            wide=wide,
        )

"""`dse search`: find the best configurations of variants of the same work, and rank the variants."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dse.cli import inputs
from dse.cli.options import ExecutorOptions, Output, command
from dse.models import DEFAULT

STORAGE = "sqlite:///dse-search.db"


@command("Example: [bold]dse search matmul_naive matmul_tiled --gpu a100 --trials 400[/bold]")
def search(
    kernel: inputs.KernelsArgument,
    gpu: inputs.GpuOption,
    *,
    model: inputs.ModelOption = DEFAULT,
    sampler: Annotated[
        str,
        typer.Option(
            help="tpe, gp (needs torch), nsga2, nsga3, cmaes, qmc, random, or auto, by number of trials and "
            "objectives."
        ),
    ] = "tpe",
    trials: Annotated[
        int,
        typer.Option(
            min=1,
            max=10**7,
            help="Total configurations of the study, including earlier runs and concurrent processes.",
        ),
    ] = 200,
    objective: Annotated[
        str, typer.Option(help="What to minimize: time_s, optionally registers and shared_bytes.")
    ] = "time_s",
    storage: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="Storage of the study: a database (sqlite:///FILE, mysql://...), journal:FILE, "
            "grpc://HOST:PORT, or none.",
        ),
    ] = STORAGE,
    enqueue: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Try the configurations of this file first (Parquet, CSV): output of `dse sweep`, `rank` or "
            "`prune`.",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=inputs.MOST_SEED, help="Makes a new study reproducible.")
    ] = None,
    changed: inputs.SetOption = None,
    execution: ExecutorOptions,
    output: Output,
) -> None:
    """Search the parameters of one kernel, or of several variants of the same work, with Optuna.

    A name of work (`matmul`) means all its kernels. Variants are ranked by their best configurations; for
    small spaces, the exhaustive optimum is shown too. Run it again with more --trials to continue the study
    in --storage.
    """
    [closed] = inputs.models([model])
    values = inputs.settings(changed)
    names = inputs.kernels_of_work(kernel)
    described = inputs.several(names, values)
    [gpu_file] = inputs.gpus([gpu])
    from dse.core.cluster import executing_on
    from dse.data.measured.formats import read
    from dse.explore.search import study  # imports jax and optuna: seconds
    from dse.report.show import progress

    choices, goals = study.variants(described), study.objectives(objective)
    kept = None if storage == "none" else storage
    searched = study.start(choices, gpu_file.name, closed, goals, sampler, kept, seed, trials)
    if enqueue is not None:
        study.enqueue(searched, read(enqueue).table.to_pylist(), str(enqueue))
    with executing_on(execution.workers, execution.cluster), progress("Searching", trials) as advance:
        study.run(searched, gpu_file.gpu, closed, trials, advance)

    rows = searched.rows()
    for row in rows:
        least, time = study.optimum(choices[row["kernel"]], gpu_file.gpu, closed), row["time_s"]
        row["optimum_s"] = least
        row["above_optimum_percent"] = None if least is None or time is None else 100 * (time / least - 1)
    labels = {"gpu": gpu_file.name, "model": closed.name}
    first = ("kernel", *labels, "time_s", "optimum_s", "above_optimum_percent")
    rows = [
        {"rank": i} | {key: (labels | row).get(key) for key in first} | row for i, row in enumerate(rows, 1)
    ]
    count = len(searched.evaluated())
    from dse.report.conclusion import configuration, quantity

    title = f"Best of {count:,} evaluated configurations on {gpu_file.name} by {model}"
    output.present(rows, title=title, hidden=(*labels, *searched.hidden))
    if len(goals) > 1 and output.table:
        output.present(searched.front(), title=f"Pareto front of {' and '.join(goals)}")
    best: dict[str, Any] = rows[0]
    which = configuration(best, choices[best["kernel"]].free)
    finding = f"best of {count:,} evaluated: {best['kernel']}, {which}: {quantity(best['time_s'])} by {model}"
    sure, off = "the space is too large to know its optimum", best["above_optimum_percent"]
    if off is not None:
        sure = "the optimum of its space" if off < 0.05 else f"{off:.1f} % above the optimum of its space"
    then = f"more --trials continue the study in {kept}" if kept else "--storage keeps a study"
    output.conclude(finding, sure=sure, then=then)

"""`dse search`: find the best configuration of kernels that do the same work, and rank them by it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dse.cli import inputs
from dse.cli.options import Output, SpreadOptions, grouped
from dse.models import DEFAULT

app = typer.Typer(rich_markup_mode="rich")

STORAGE = "sqlite:///dse-search.db"


@app.command(epilog="Example: [bold]dse search matmul_naive matmul_tiled --gpu a100 --trials 400[/bold]")
@grouped
def search(
    kernel: inputs.KernelsArgument,
    gpu: inputs.GpuOption,
    *,
    model: inputs.ModelOption = DEFAULT,
    sampler: Annotated[
        str,
        typer.Option(
            help="tpe, gp (needs torch), nsga2, nsga3, cmaes, qmc, random, or auto, which goes by the trials "
            "and objectives."
        ),
    ] = "tpe",
    trials: Annotated[
        int,
        typer.Option(
            min=1,
            max=10**7,
            help="Configurations that the study shall have, earlier runs and other processes included: two "
            "that search one study at once share them.",
        ),
    ] = 200,
    objective: Annotated[
        str, typer.Option(help="What to keep low: time_s, and perhaps registers and shared_bytes.")
    ] = "time_s",
    storage: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="Where the study is kept: a database (sqlite:///FILE, mysql://...), journal:FILE, "
            "grpc://HOST:PORT, or none.",
        ),
    ] = STORAGE,
    enqueue: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Try the configurations of this file first: what `dse sweep`, `rank` or `prune` wrote "
            "(Parquet, CSV).",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=inputs.MOST_SEED, help="Makes a new study repeatable.")
    ] = None,
    changed: inputs.SetOption = None,
    spread: SpreadOptions,
    output: Output,
) -> None:
    """Search the parameters of one kernel, or of several variants that do the same work, with Optuna.

    A name of work that several kernels do (`matmul`) represents all of them. Variants are ranked by the best
    that each reaches; where a space is small, the exhaustive optimum is beside. Run it again with more
    --trials to continue: studies are kept in --storage.
    """
    [closed] = inputs.models([model])
    values = inputs.settings(changed)
    names = inputs.kernels_of_work(kernel)
    described = inputs.several(names, values)
    [gpu_file] = inputs.gpus([gpu])
    from dse.core.cluster import used
    from dse.data.measured.formats import read
    from dse.explore.search import study  # imports jax and optuna: seconds
    from dse.report.show import progress

    choices, goals = study.variants(described), study.objectives(objective)
    kept = None if storage == "none" else storage
    searched = study.start(choices, gpu_file.name, closed, goals, sampler, kept, seed, trials)
    if enqueue is not None:
        study.enqueue(searched, read(enqueue).table.to_pylist(), str(enqueue))
    with used(spread.workers, spread.cluster), progress("Searching", trials) as advance:
        study.run(searched, gpu_file.gpu, closed, trials, advance)

    rows = searched.rows()
    for row in rows:
        least, time = study.optimum(choices[row["kernel"]], gpu_file.gpu, closed), row["time_s"]
        row["optimum_s"] = least
        row["above_optimum_percent"] = None if least is None or time is None else 100 * (time / least - 1)
    same = {"gpu": gpu_file.name, "model": closed.name}
    first = ("kernel", *same, "time_s", "optimum_s", "above_optimum_percent")
    rows = [
        {"rank": i} | {key: (same | row).get(key) for key in first} | row for i, row in enumerate(rows, 1)
    ]
    count = len(searched.evaluated())
    from dse.report.conclusion import configuration, quantity

    title = f"Best of {count:,} evaluated configurations on {gpu_file.name} by {model}"
    output.present(rows, title=title, hidden=(*same, *searched.hidden))
    if len(goals) > 1 and output.table:
        output.present(searched.front(), title=f"Not beaten in {' and '.join(goals)}")
    best: dict[str, Any] = rows[0]
    which = configuration(best, choices[best["kernel"]].free)
    finding = f"best of {count:,} evaluated: {best['kernel']}, {which}: {quantity(best['time_s'])} by {model}"
    sure, off = "the space is too large to know its optimum", best["above_optimum_percent"]
    if off is not None:
        sure = "the optimum of its space" if off < 0.05 else f"{off:.1f} % above the optimum of its space"
    then = f"more --trials go on with the study in {kept}" if kept else "--storage keeps a study"
    output.conclude(finding, sure=sure, then=then)

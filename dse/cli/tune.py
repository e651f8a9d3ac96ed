"""`dse tune`: find the fastest configuration with few measurements."""

import math
import shlex
from pathlib import Path
from typing import Annotated

import typer

from dse.cli import inputs
from dse.cli.options import Output, command
from dse.errors import DseError

MOST = 65_536  # configurations to choose from


@command(
    "Example: [bold]dse tune convolution --gpu a4000 --budget 20 --replay A4000.csv.gz[/bold]; "
    "[bold]dse tune reduction -g a100 --command 'python bench.py {block} {items}' --unit ms "
    "--journal reduction.jsonl[/bold]"
)
def tune(
    kernel: inputs.SourceArgument,
    gpu: inputs.GpuOption,
    *,
    budget: Annotated[int, typer.Option(min=1, help="Configurations to measure, failed ones included.")] = 20,
    replay: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Take times from a file of measurements instead of measuring."),
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Command to measure: {NAME} is a value; prints the time last."),
    ] = None,
    unit: Annotated[str, typer.Option(help="Unit of the printed time: s, ms, us or ns.")] = "ms",
    limit: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="Timeout of a command, which counts as failed.")
    ] = 3600.0,
    budget_seconds: Annotated[
        float,
        typer.Option(min=0.0, metavar="S", help="Time limit of all measurements, including compilation."),
    ] = math.inf,
    batch: Annotated[int, typer.Option(min=1, help="Diverse configurations chosen at a time.")] = 1,
    parallel: Annotated[int, typer.Option(min=1, max=64, help="Concurrent commands.")] = 1,
    repeats: Annotated[
        int, typer.Option(min=1, help="Measurements of near-optimal configurations; the median counts.")
    ] = 1,
    pays: Annotated[
        float, typer.Option(min=0.0, help="Stop if no expected improvement exceeds this share of the time.")
    ] = 0.0,
    journal: Annotated[
        Path | None,
        typer.Option(metavar="FILE.jsonl", help="Records each measurement at once; run again to resume."),
    ] = None,
    choices: inputs.ChoiceOptions,
    launch: inputs.LaunchOptions,
    seed: Annotated[int, typer.Option(min=0, max=inputs.MOST_SEED, help="Random seed.")] = 0,
    output: Output,
) -> None:
    """Find the fastest configuration with few measurements.

    The model ranks the configurations before the first measurement, together with times on other GPUs from
    --prior. Each measurement refits the GPU's parameters, the model's errors and its weight; the next
    configuration has the largest expected improvement. Failures count as measurements.
    """
    measurer = replay if command is None else command
    if measurer is None or (replay is not None and command is not None):
        stated = "neither" if measurer is None else "both"
        raise DseError(f"--replay, --command: found {stated}, expected one of them")
    unit_s = inputs.in_seconds(unit)
    counts, problem = choices.kernel(kernel, launch)
    form = inputs.closed_form(choices.model)
    [file] = inputs.gpus([gpu])
    from dse.data import measured
    from dse.evaluate.rank import configurations
    from dse.explore.tune import loop
    from dse.explore.tune.candidates import of_kernel
    from dse.explore.tune.others import with_others
    from dse.explore.tune.tuner import Tuner
    from dse.report.show import progress

    if isinstance(measurer, str):
        loop.check_command(measurer, dict.fromkeys(counts.space.names))
        parameters = configurations(counts, problem)
        candidates = of_kernel(counts, file, form, parameters, problem, progress)
        candidates = with_others(candidates, counts, choices.prior or ()).most(MOST, seed)
        measure = loop.commanded(measurer, unit_s, min(limit, budget_seconds))
    else:
        table = measured.load(measurer, counts).where(choices.values)
        sizes = {**problem, **table.problem}
        candidates = of_kernel(counts, file, form, table.parameters, sizes, progress)
        candidates = with_others(candidates, counts, choices.prior or ())
        measure = loop.replayed(candidates, table.time_s)
    labels = {"kernel": counts.name, "gpu": file.name, **problem}
    with progress(f"Tuning {counts.name}", budget) as advance:
        ends = {"pays": pays, "limit_s": budget_seconds}
        tuner, modes = Tuner(candidates, seed), {"parallel": parallel, "repeats": repeats}
        run = loop.run(tuner, measure, budget, batch, journal, advance=advance, **ends, **modes, about=labels)
    title = f"{counts.name} on {file.name}: {len(run.measured)} of {len(candidates):,} measured; {run.ended}"
    rows = [labels | row for row in run.rows()]
    output.present(rows, title=title, hidden=(*labels, *run.hidden))
    from dse.report.conclusion import configuration, quantity

    ran = [row for row in rows if row["measured_s"] is not None]
    count = f"{len(rows)} of {budget} measurements"
    count += f", {len(rows) - len(ran)} failed" if len(ran) < len(rows) else ""
    if not ran:
        output.conclude(f"no configuration ran in {count}", then="run the command by hand")
        raise typer.Exit(1)
    best = min(ran, key=lambda row: row["measured_s"])
    finding = f"fastest: {configuration(best, candidates.varying)}: {quantity(best['measured_s'])}"
    table = shlex.quote(str(output.out))
    then = f"dse prune refits with --measured {table}" if output.out else "more with --budget"
    output.conclude(finding, sure=f"measured, after {count}; {run.ended}", then=then)

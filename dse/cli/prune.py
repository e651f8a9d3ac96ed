"""`dse prune`: keep the configurations worth measuring, with a stated risk."""

import warnings
from pathlib import Path
from typing import Annotated

import typer

from dse.cli import inputs
from dse.cli.options import Screen, grouped
from dse.errors import DseError, InputWarning, one_of

app = typer.Typer(rich_markup_mode="rich")

SUFFIXES = {  # by format
    "table": (".parquet", ".csv", ".json"),
    "t1": (".json",),
    "kernel-tuner": (".py", ".json"),
    "triton": (".py",),
}


@app.command(
    epilog="Example: [bold]dse prune convolution --gpu a4000 --risk 0.05 -o kept.parquet[/bold]; "
    "[bold]dse prune reduction -g a100 --measured few.csv --format t1 -o kept.json[/bold]"
)
@grouped
def prune(
    kernel: inputs.SourceArgument,
    gpu: inputs.GpuOption,
    *,
    risk: Annotated[float, typer.Option(help="That no configuration kept is near-optimal.")] = 0.05,
    within: Annotated[float, typer.Option(help="Near-optimal: slower by at most this share.")] = 0.05,
    measured: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Times of some configurations, to refit; ten or more help."),
    ] = None,
    choices: inputs.ChoiceOptions,
    top: Annotated[int, typer.Option(min=0, help="Configurations to show; 0 shows all.")] = 10,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Write the configurations kept."),
    ] = None,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="Of the file: table (.parquet, .csv, .json), t1, kernel-tuner (.py, .json) or triton (.py).",
        ),
    ] = "table",
    screen: Screen,
) -> None:
    """Keep the configurations worth measuring, with a stated risk of missing a near-optimum.

    Without measurements, by the model's times and its errors in measured spaces; with some, by its errors in
    this space, and by what could still beat the measurements. If the model does not explain them, more is
    kept and a note says so. Configurations that the model deems impossible are dropped.
    """
    if form not in SUFFIXES:
        raise DseError(f"--format: found {form!r}, {one_of(form, SUFFIXES)}")
    if out is not None:
        from dse.report.save import suffix_of

        suffix_of(out, SUFFIXES[form])
    counts, problem = choices.kernel(kernel)
    closed = inputs.closed_form(choices.model)
    [file] = inputs.gpus([gpu])
    import numpy as np

    from dse.bridges import export
    from dse.data import measured as measured_data
    from dse.evaluate.rank import configurations
    from dse.explore.prune.keep import check, keep
    from dse.explore.tune.candidates import of_kernel
    from dse.explore.tune.others import with_others
    from dse.report.show import progress

    check(risk, within)  # before the work
    table = measured_data.load(measured, counts) if measured else None
    sizes = {**problem, **(table.problem if table else {})}
    candidates = of_kernel(counts, file, closed, configurations(counts, sizes), sizes, progress)
    candidates = with_others(candidates, counts, choices.prior or ())
    recorded = {}
    if table is not None:
        index, seconds = candidates.places_of(table.parameters), np.where(table.ok, table.time_s, np.inf)
        recorded = {i: time for i, time in zip(index.tolist(), seconds.tolist(), strict=True) if i >= 0}
        if not recorded:
            raise DseError(
                f"{measured}: found no configuration of {counts.name}'s space, expected at least one"
            )
    kept = keep(candidates, risk, within, recorded)
    parameters = {name: values[kept.index] for name, values in candidates.parameters.items()}
    title = (
        f"{counts.name} on {file.name}: {len(kept.index):,} of {len(candidates):,} kept ({kept.share:.1%})"
    )
    if out is not None:
        export.FORMS[form](parameters, out)
    first = kept.index[: top or None]
    shown = {name: values[first].tolist() for name, values in candidates.varying.items()}
    ranked = [
        {"rank": i} | dict(zip(shown, values, strict=True))
        for i, values in enumerate(zip(*shown.values(), strict=True), 1)
    ]
    title += f", the {len(ranked)} most promising" if len(ranked) < len(kept.index) else ""
    if out is None or screen.table:
        screen.present(ranked, title=title)
    count = len(kept.index)
    finding = f"kept {count:,} of {len(candidates):,}"
    finding += f", of which {len(ranked)} are shown (--top 0 shows all)" if len(ranked) < count else ""
    by = f"{len(recorded)} measurements" if recorded else closed.name
    sure = f"by {by}, with {1 - risk:.0%} probability, one of them is within {within:.0%} of the fastest"
    then = "measure them all, the first ones first" + ("" if out else "; -o FILE writes the list")
    if kept.reason and not screen.table:
        warnings.warn(kept.reason, InputWarning, stacklevel=2)  # the conclusion may not be printed
    elif kept.reason:
        finding += f"; {kept.reason}"
    screen.conclude(finding, sure=sure, wrote=out, then=then)

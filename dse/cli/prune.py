"""`dse prune`: keep the configurations worth measuring, with a stated risk."""

import warnings
from pathlib import Path
from typing import Annotated

import typer

from dse.cli import inputs
from dse.cli.options import Screen, command
from dse.core.files import read_json
from dse.errors import DseError, InputWarning, check_names

SUFFIXES = {  # by format
    "table": (".parquet", ".csv", ".json"),
    "t1": (".json",),
    "kernel-tuner": (".py", ".json"),
    "triton": (".py",),
}


@command(
    "Example: [bold]dse prune convolution --gpu a4000 --risk 0.05 -o kept.parquet[/bold]; "
    "[bold]dse prune reduction -g a100 --measured few.csv --format t1 -o kept.json[/bold]"
)
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
    launch: inputs.LaunchOptions,
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
    check_names("--format", SUFFIXES, form)
    if out is not None:
        from dse.report.save import suffix_of

        suffix_of(out, SUFFIXES[form])
    counts, problem = choices.kernel(kernel, launch)
    closed = inputs.closed_form(choices.model)
    [file] = inputs.gpus([gpu])
    from dse import api
    from dse.bridges import export
    from dse.data.tables import rows_of
    from dse.report.show import progress

    prior = choices.prior or ()
    of_json = form == "t1" and Path(kernel).suffix == ".json"
    same_problem = of_json and "ConfigurationSpace" in read_json(Path(kernel))
    if same_problem and (sizes := ", ".join(name for name in choices.values if name in problem)):
        raise DseError(f"--set: {sizes}: --format t1 keeps the sizes of {kernel}: change them there")
    pruned = api.prune(counts, file, risk, within, closed, problem, prior, measured, progress)
    kept, candidates = pruned.kept, pruned.candidates
    title = (
        f"{counts.name} on {file.name}: {len(kept.index):,} of {len(candidates):,} kept ({kept.share:.1%})"
    )
    if out is not None:
        if same_problem:
            export.t1(pruned, out, kernel)  # with less of its space
        else:
            export.FORMS[form](pruned, out)
    first = kept.index[: top or None]
    shown = {name: values[first] for name, values in candidates.varying.items()}
    ranked = [{"rank": i} | row for i, row in enumerate(rows_of(shown), 1)]
    title += f", the {len(ranked)} most promising" if len(ranked) < len(kept.index) else ""
    if out is None or screen.table:
        screen.present(ranked, title=title)
    count = len(kept.index)
    finding = f"kept {count:,} of {len(candidates):,}"
    finding += f", of which {len(ranked)} are shown (--top 0 shows all)" if len(ranked) < count else ""
    by = f"{pruned.measurements} measurements" if kept.spreads is not None else closed.name
    sure = f"by {by}, with {1 - risk:.0%} probability, one of them is within {within:.0%} of the fastest"
    then = "measure them all, the first ones first" + ("" if out else "; -o FILE writes the list")
    if kept.reason and not screen.table:
        warnings.warn(kept.reason, InputWarning, stacklevel=2)  # the conclusion may not be printed
    elif kept.reason:
        finding += f"; {kept.reason}"
    screen.conclude(finding, sure=sure, wrote=out, then=then)

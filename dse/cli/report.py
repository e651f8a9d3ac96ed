"""`dse report`: one page with the results of other commands."""

from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dse.cli import inputs
from dse.cli.options import command
from dse.errors import DseError
from dse.models import DEFAULT, MODELS

if TYPE_CHECKING:
    from dse.data.results.space import ResultSpace
    from dse.report.page import Roofline


@command("Example: [bold]dse report sweep.parquet -o report.html[/bold]")
def report(
    result: Annotated[
        list[Path],
        typer.Argument(
            metavar="RESULT...",
            help="Output of rank, sweep, compare, tune, search or prune: .parquet, .csv, .json, .jsonl.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The .html file to write.")] = Path(
        "report.html"
    ),
    kernel: Annotated[
        str | None, typer.Option(help="The kernel, or its file, if results do not name it.")
    ] = None,
    gpu: Annotated[
        str | None, typer.Option("--gpu", "-g", help="The GPU, if results do not name it.")
    ] = None,
) -> None:
    """Draw results as one offline page: a table, and linked charts.

    Times, intervals, bottlenecks, occupancy, a roofline, heat maps over any two parameters, importance of
    parameters, the Pareto front, disagreement of models, and predicted against measured times.
    """
    from dse.core.files import replacing
    from dse.report.save import suffix_of

    suffix_of(out, (".html",))
    gpu_name = inputs.gpus([gpu])[0].name if gpu else None
    from dse.data.results.read import read
    from dse.data.results.space import codes
    from dse.evaluate.importance import importance
    from dse.report.page import page

    results = read(result, MODELS, kernel, gpu_name)
    sizes = {space.kernel: _sizes(kernel or space.kernel) for space in results.spaces}
    spaces = [part for space in results.spaces for part in space.by_size(sizes[space.kernel])]
    results = replace(results, spaces=tuple(spaces))
    if not results.spaces and not results.scores:
        raise DseError(f"{result[0]}: found no result, expected one of rank, sweep, compare, tune or search")
    shares = [
        importance(
            {name: codes(values)[0] for name, values in space.parameters.items()},
            {model: columns["time_s"] for model, columns in space.forecasts.items()},
        )
        for space in results.spaces
    ]
    text = page(results, shares, [_roofline(space, kernel) for space in results.spaces], DEFAULT)
    with replacing(out) as temporary:
        temporary.write_text(text, encoding="utf-8")
    count = sum(space.count for space in results.spaces)
    from dse.report.conclusion import conclude

    for note in results.notes:
        print(note)
    finding = f"a page of {count:,} configurations, {len(text.encode()) / 1e6:.1f} MB"
    if results.spaces and not any(space.forecasts for space in results.spaces):
        finding += "; no file has times or predictions"
    conclude(finding, wrote=out, then="open it in a browser; it needs no network")


def _sizes(kernel: str) -> list[str]:
    """The names of a kernel's problem sizes; none for an unknown kernel."""
    from dse.source.readers.kernel import kernel as described

    try:
        return [name for name, _ in described(kernel).problem]
    except DseError:
        return []


def _roofline(space: "ResultSpace", kernel: str | None) -> "Roofline":
    """Place a space's configurations on the roofline, by the kernel's description if it matches."""
    import numpy as np

    from dse.evaluate import intensity
    from dse.hardware.gpus import load
    from dse.report.page import Roofline
    from dse.source.readers.kernel import kernel as described

    facts = space.facts
    try:
        gpu = load(space.gpu).gpu
    except DseError:
        return Roofline(reason=f"no GPU file is known for {space.gpu!r}; --gpu names one")
    roofs = intensity.roofs(gpu)._asdict()
    if "thread_instructions" in facts and "dram_bytes" in facts:
        return Roofline(roofs)
    try:
        counts = described(kernel or space.kernel)
        parameters = {name: space.parameter(name) for name in counts.space.names}
        for name, values in parameters.items():
            if values is None and len(only := counts.space.values[name]) == 1:
                parameters[name] = space.constant(only[0])
        lacking = [name for name, values in parameters.items() if values is None]
        if lacking:
            return Roofline(reason=f"the files lack {', '.join(lacking)}")
        sizes = {name: space.fixed[name] for name, _ in counts.problem if name in space.fixed}
        if words := [name for name, value in sizes.items() if not isinstance(value, Real)]:
            return Roofline(reason=f"the size {words[0]} is no number")
        if words := [
            name for name, value in parameters.items() if np.asarray(value).dtype.kind not in "biuf"
        ]:
            return Roofline(reason=f"the parameter {words[0]} is no number")
        if varying := [name for name, _ in counts.problem if name in space.parameters]:
            return Roofline(reason=f"the size {varying[0]} varies among the configurations")
        known = {name: values for name, values in parameters.items() if values is not None}
        totals = intensity.launch_totals(counts, gpu, known, sizes)
    except DseError as error:
        return Roofline(reason=f"instructions and DRAM traffic are not known ({error})")
    for name in ("threads", "blocks"):
        if name in facts and not (facts[name] == getattr(totals, name)).all():
            return Roofline(reason=f"the described kernel has other {name}: other problem sizes, perhaps")
    note = "Both counted from the kernel's description"
    stated = ", ".join(f"{name} {value:,}" for name, value in ({**dict(counts.problem), **sizes}).items())
    columns = {"thread_instructions": totals.instructions, "dram_bytes": totals.dram_bytes}
    return Roofline(roofs, columns, f"{note}{f' ({stated})' if stated else ''}.")

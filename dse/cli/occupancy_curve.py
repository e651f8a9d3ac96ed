"""`dse occupancy-curve`: throughput of one configuration against resident warps."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from dse.cli import inputs
from dse.cli.options import Screen, command
from dse.models import DEFAULT, MODELS

TABLES = (".parquet", ".csv", ".json")


@command("Example: [bold]dse occupancy-curve convolution --gpu a100 -o curve.svg[/bold]")
def occupancy_curve(
    kernel: inputs.KernelArgument,
    gpu: inputs.GpuOption,
    *,
    model: inputs.ModelsOption = None,
    changed: inputs.SetOption = None,
    simulator: inputs.SimulatorOptions,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Draw .svg, .png or .html; or write .parquet, .csv or .json.",
        ),
    ] = None,
    screen: Screen,
) -> None:
    """Show throughput against resident warps for one configuration, by all models or those of --model.

    Parameters without --set are those of the fastest configuration by the default model. Warps range from one
    block on an SM to as many as fit. Throughput is in warps per million cycles of one SM, including fill,
    drain and tail of the whole launch.
    """
    from dse.report.save import CHARTS, save_chart, suffix_of

    if out is not None:
        suffix_of(out, (*CHARTS, *TABLES))
    models = inputs.models(model, tuple(MODELS), simulator)
    counts, problem = inputs.kernel(kernel, inputs.settings(changed))
    [gpu_file] = inputs.gpus([gpu])
    from dse.data.tables import write_rows
    from dse.evaluate.curve import curve, fastest, place_launch  # imports jax: seconds

    parameters = fastest(counts, gpu_file.gpu, problem)
    warp, launch = place_launch(counts, gpu_file.gpu, parameters, problem)
    rows = curve(warp, gpu_file.gpu, launch, models)
    configuration = inputs.in_words(kernel, parameters)
    title = f"{counts.name} on {gpu_file.name}"
    if out is not None and out.suffix.lower() in CHARTS:
        from dse.report.curves import occupancy_curves

        points = [{**row, "throughput": 1e6 * row["throughput"]} for row in rows]
        chart = occupancy_curves(
            points, title=f"{title}: throughput against occupancy", subtitle=configuration
        )
        save_chart(chart, out)
    elif out is not None:
        write_rows(out, rows)
    elif not screen.table:
        screen.present(rows)
    else:
        by_warps: dict[int, dict[str, float]] = {}
        rows.sort(key=lambda row: row["model"] != DEFAULT)  # the default model's column first
        for row in rows:
            by_warps.setdefault(row["warps"], {"warps": row["warps"]})[row["model"]] = 1e6 * row["throughput"]
        screen.present(list(by_warps.values()), title=f"{title}: {configuration}" if configuration else title)
    enough = {model.name: _enough(rows, model.name) for model in models}
    first = DEFAULT if DEFAULT in enough else models[0].name
    finding = f"{enough[first]} warps an SM give 95 % of the highest throughput by {first}"
    if len(enough) > 1:
        finding += f", {min(enough.values())} to {max(enough.values())} by the {len(enough)} models"
    finding += f"; this configuration has {int(launch.warps_per_sm)}"
    screen.conclude(finding, wrote=out)


def _enough(rows: Sequence[Mapping[str, Any]], model: str) -> int:
    """The fewest warps with 95 % of a model's highest throughput."""
    own = [row for row in rows if row["model"] == model]
    most = max(row["throughput"] for row in own)
    return min(row["warps"] for row in own if row["throughput"] >= 0.95 * most)

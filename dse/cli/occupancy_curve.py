"""`dse occupancy-curve`: throughput of one configuration against the warps resident on an SM."""

from pathlib import Path
from typing import Annotated

import typer

from dse.cli import inputs
from dse.cli.options import CsvOption, JsonOption, grouped, present
from dse.models import MODELS

app = typer.Typer(rich_markup_mode="rich")

TABLES = (".parquet", ".csv", ".json")


@app.command(epilog="Example: [bold]dse occupancy-curve convolution --gpu a100 -o curve.svg[/bold]")
@grouped
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
    json: JsonOption = False,
    csv: CsvOption = False,
) -> None:
    """Throughput against resident warps by each model (all, unless --model is given), for one configuration.

    Parameters that are not --set are those of the configuration that the default model puts first. The warps
    go from one block on an SM to as many blocks as it holds. Throughput is in warps per million cycles of one
    SM, fill, drain and tail of the whole launch included.
    """
    from dse.report.save import CHARTS, save_chart, suffix_of

    if out is not None:
        suffix_of(out, (*CHARTS, *TABLES))
    models = inputs.models(model, tuple(MODELS), simulator)
    counts, problem = inputs.kernel(kernel, inputs.settings(changed))
    [gpu_file] = inputs.gpus([gpu])
    from dse.evaluate.curve import curve, fastest, laid_out  # imports jax: seconds

    parameters = fastest(counts, gpu_file.gpu, problem)
    one, launch = laid_out(counts, gpu_file.gpu, parameters, problem)
    rows = curve(one, gpu_file.gpu, launch, models)
    chosen = inputs.in_words(kernel, parameters)
    title = f"{counts.name} on {gpu_file.name}"
    if out is not None and out.suffix.lower() in CHARTS:
        from dse.report.curves import occupancy_curves

        points = [{**row, "throughput": 1e6 * row["throughput"]} for row in rows]
        chart = occupancy_curves(points, title=f"{title}: throughput against occupancy", subtitle=chosen)
        save_chart(chart, out)
        print(f"{out}: {len(models)} models, {len(rows) // len(models)} occupancies")
    elif out is not None or json or csv:
        present(rows, json=json, csv=csv, out=out)
    else:
        by_warps: dict[int, dict[str, float]] = {}
        for row in rows:
            by_warps.setdefault(row["warps"], {"warps": row["warps"]})[row["model"]] = 1e6 * row["throughput"]
        print(f"{title}: {chosen}" if chosen else title)  # a table's title would be broken to its width
        present(list(by_warps.values()))

"""`dse compare`: score the models' ranking and times on a measured space."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dse.cli import inputs
from dse.cli.options import Output, grouped
from dse.errors import DseError
from dse.models import MODELS

if TYPE_CHECKING:
    from dse.hardware.gpus import GpuFile
    from dse.kernels.counts import Counts

POOR = 0.3  # rank correlation

app = typer.Typer(rich_markup_mode="rich")


@app.command(epilog="Example: [bold]dse compare convolution --gpu a100 --measured A100.csv.gz[/bold]")
@grouped
def compare(
    kernel: inputs.KernelArgument,
    gpu: inputs.GpuOption,
    *,
    measured: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Measured times of the space. Default: the files in the kernel's measured/.",
        ),
    ] = None,
    model: inputs.ModelsOption = None,
    changed: inputs.SetOption = None,
    simulator: inputs.SimulatorOptions,
    source: inputs.SourceOption = False,
    sample: inputs.SampleOption = None,
    compiled: inputs.CompileOption = None,
    output: Output,
) -> None:
    """Compare predictions with measured times, one row a model (all, unless --model is given).

    Spearman is the rank correlation; MAPE the mean error of the times, MAPE_shape the same after subtracting
    a straight line over occupancy; top_k the fraction of the best performance reached by measuring the k
    configurations (or that share of them) ranked first. The last row is random choice.
    """
    models = inputs.models(model, tuple(MODELS), simulator)
    counts, problem = inputs.kernel(kernel, inputs.settings(changed), source=source, compiled=compiled)
    [gpu_file] = inputs.gpus([gpu])
    from dse.data import measured as measured_data
    from dse.evaluate.compare import compare as compare_models  # imports jax: seconds
    from dse.evaluate.compare import sample as take_sample
    from dse.report.show import progress

    table = measured_data.load(measured or _beside(counts, gpu_file), counts)
    if sample is not None:
        table = table.rows(take_sample(table, counts, sample))
    labels = {"kernel": counts.name, "gpu": gpu_file.name}
    rows = [labels | row for row in compare_models(counts, gpu_file.gpu, models, table, problem, progress)]
    ran = int(table.ok.sum())
    title = f"{counts.name} on {gpu_file.name}: {len(table.ok):,} configurations, "
    title += f"{ran:,} of them measured" if sample is None else "drawn from the ones that ran"
    output.present(rows, title=title, hidden=(*labels, "configurations", "failed"))
    scored = [row for row in rows if row.get("spearman") is not None]
    if scored:
        best = max(scored, key=lambda row: row["spearman"])
        finding = f"closest: {best['model']}, rank correlation {best['spearman']:.2f}"
        if float(best["spearman"]) < POOR:
            finding = f"no model ranks these times well; {finding}"
        if best["top_10"]:
            finding += f"; the best of its first ten reaches {best['top_10']:.0%} of the best performance"
            finding += f" (of ten at random: {rows[-1]['top_10']:.0%})"
        output.conclude(finding, then=f"dse rank {kernel} -g {gpu} -m {best['model']}")


def _beside(kernel: "Counts", gpu: "GpuFile") -> Path:
    """Find the times that `dse measure` stored for a kernel on a GPU. **Raises:** DseError without any."""
    from dse.measure.bench.gpu_file import MEASURED, SWEPT

    folder = kernel.path.parent / "measured"
    # A measured GPU has a second file, besides the one of its data sheet.
    path = folder / f"{gpu.path.stem.removesuffix(MEASURED)}.parquet"
    if path.is_file():
        return path
    known = [table.stem for table in sorted(folder.glob("*.parquet")) if not table.stem.endswith(SWEPT)]
    hint = f"; measured are {', '.join(known)}" if known else ""
    raise DseError(f"--measured: found none, and no {path}, expected FILE{hint}")

"""`dse compare`: score the models' ranking and times on a measured space."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dse.cli import inputs
from dse.cli.options import Output, command
from dse.errors import DseError
from dse.models import MODELS

if TYPE_CHECKING:
    from dse.hardware.gpus import GpuFile
    from dse.kernels.counts import Counts

POOR = 0.3  # rank correlation


@command("Example: [bold]dse compare convolution --gpu a100 --measured A100.csv.gz[/bold]")
def compare(
    kernel: inputs.SourceArgument,
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
    launch: inputs.LaunchOptions,
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
    numbers = inputs.settings(changed)
    counts, problem = inputs.kernel(kernel, numbers, None, launch.given(numbers), source, compiled)
    [gpu_file] = inputs.gpus([gpu])
    from dse import api
    from dse.report.show import progress

    times = measured or _beside(counts, gpu_file)
    rows = api.compare(counts, gpu_file, times, models, problem, sample, progress)
    count, failed = rows[-1]["configurations"], rows[-1]["failed"]
    title = f"{counts.name} on {gpu_file.name}: {count:,} configurations, "
    title += f"{count - failed:,} of them measured" if sample is None else "drawn from the ones that ran"
    output.present(rows, title=title, hidden=("kernel", "gpu", "configurations", "failed"))
    scored = [row for row in rows if row.get("spearman") is not None]
    if scored:
        best = max(scored, key=lambda row: row["spearman"])
        finding = f"closest: {best['model']}, rank correlation {best['spearman']:.2f}"
        if float(best["spearman"]) < POOR:
            finding = f"no model ranks these times well; {finding}"
        if best["top_10"]:
            finding += f"; the best of its first ten reaches {best['top_10']:.0%} of the best performance"
            finding += f" (of ten at random: {rows[-1]['top_10']:.0%})"
        output.conclude(finding, then=f"dse rank ranks by it with -m {best['model']}")


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

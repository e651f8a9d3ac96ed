"""`dse fit`: fit GPU parameters to measured times."""

from pathlib import Path
from typing import Annotated

import typer

from dse.cli import inputs
from dse.cli.options import Screen, command
from dse.errors import DseError
from dse.models import DEFAULT

MOST_STARTS = 1000
SIMULATED_SAMPLE = 50  # configurations of a file by default: each evaluation takes seconds


@command(
    "Example: [bold]dse fit convolution dedispersion --gpu a100-pcie-40gb --measured conv.csv "
    "--measured dedispersion.csv -o my-a100.toml[/bold]"
)
def fit(
    kernel: inputs.KernelsArgument,
    gpu: inputs.GpusOption,
    *,
    measured: Annotated[
        list[Path],
        typer.Option(
            metavar="FILE", help="Measured times, one file a kernel, in the same order; repeatable."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE.toml", help="The GPU file; a folder for several."),
    ] = None,
    model: inputs.ModelOption = DEFAULT,
    free: Annotated[
        list[str] | None,
        typer.Option(metavar="FIELD", help="A GPU field to fit, as cpi.shared; default: all; repeatable."),
    ] = None,
    shared: Annotated[
        list[str] | None,
        typer.Option(metavar="FIELD", help="Field with one common correction on all GPUs; repeatable."),
    ] = None,
    method: Annotated[str, typer.Option(help="lm (Levenberg-Marquardt) or bfgs.")] = "lm",
    starts: Annotated[
        int, typer.Option(min=1, max=MOST_STARTS, help="Starting points, the catalogue's first.")
    ] = 4,
    sample: inputs.SampleOption = None,
    changed: inputs.SetOption = None,
    seed: Annotated[
        int, typer.Option(min=0, max=inputs.MOST_SEED, help="Of starts, samples, and held-out data.")
    ] = 0,
    screen: Screen,
) -> None:
    """Fit a GPU's λ, Λ and clock to measured times, with spreads and held-out errors.

    λ (`cpi.*` in GPU files) is the cycles between two warp instructions of a pipe: its throughput. Λ
    (`latency.*`) is the cycles until the result is available.

    The fit is by gradient. Values start from the catalogue's, weighted by their provenance, and stay within
    the chip's physical bounds. Of a file, at most a thousand configurations are used, evenly over the order
    of their times, or --sample random ones. With several GPUs, name one for each file. Errors are shown
    before and after, on the fitted data and on a held-out fifth; with several kernels also on each one,
    fitted to the others.
    """
    [fitted_model] = inputs.models([model])
    if len(measured) != len(kernel):
        raise DseError(
            f"--measured: found {len(measured)} files, expected {len(kernel)}, one for each kernel"
        )
    if len(gpu) not in (1, len(kernel)):
        raise DseError(f"--gpu: found {len(gpu)}, expected one, or {len(kernel)}, one for each file")
    files = {file.name: file for file in inputs.gpus(gpu)}
    names = [inputs.gpus([gpu_name])[0].name for gpu_name in gpu] * (len(kernel) // len(gpu))
    from dse.explore.fit import calibrate
    from dse.report.show import progress

    if not fitted_model.differentiable and sample is None:
        sample = SIMULATED_SAMPLE
    if out is not None:
        calibrate.check_target(out, len(files))
    known = dict(zip(dict.fromkeys(kernel), inputs.several(kernel, inputs.settings(changed)), strict=True))
    spaces = [
        calibrate.MeasuredSpace(*known[name], path, list(files).index(gpu_name))
        for name, path, gpu_name in zip(kernel, measured, names, strict=True)
    ]
    calibration = calibrate.calibrate(
        spaces, list(files.values()), fitted_model, free, shared or (), method, starts, sample, seed, progress
    )
    if out is not None:
        calibrate.write(calibration, out)
    rows = calibration.fields()
    screen.present(rows, title=f"Fitted by {model}", hidden=() if len(files) > 1 else ("gpu",))
    if screen.table:
        screen.present(calibration.errors(), title="Errors of the times")
    doubted = [f"{row['field']} ({row['note']})" for row in rows if row["note"]]
    determined = sum(row["determined"] for row in rows)
    finding = f"{determined} of {len(rows)} fields determined by {calibration.basis}"
    finding += f"; doubtful: {', '.join(doubted)}" if doubted else ""
    for name, undetermined in calibration.undetermined().items():
        of = f" of {name}" if len(files) > 1 else ""
        finding += f"; not determined by the data{of}: {', '.join(undetermined)}" if undetermined else ""
    then = f"dse rank {kernel[0]} -g {out}" if out else "-o FILE.toml writes the GPU"
    screen.conclude(finding, sure=calibration.worth, wrote=out, then=then)

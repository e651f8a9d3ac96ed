"""`dse sweep`: predict kernels × problem sizes × GPUs × models, reduced, or all rows in one file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dse.cli import inputs
from dse.cli.options import ExecutorOptions, Screen, command
from dse.errors import DseError
from dse.models import CLOSED_FORMS, DEFAULT

if TYPE_CHECKING:
    from dse.explore.sweep.sweep import Sweep

PER = "Axes with separate results: some of kernel, size, gpu, model; always model."


@command(
    "Example: [bold]dse sweep gemm --gpu a100 --gpu rtx-3090 --set m=1024,2048 --top 5 --per gpu,size[/bold]"
)
def sweep(
    kernel: inputs.KernelsArgument,
    gpu: inputs.GpusOption,
    *,
    model: inputs.ModelsOption = None,
    changed: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=V1,V2,...",
            help="Values of a parameter or a problem size, one or several; repeatable.",
        ),
    ] = None,
    top: Annotated[int | None, typer.Option(metavar="K", help="The K fastest of each group.", min=1)] = None,
    pareto: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES", help="The Pareto front in some of time_s, registers, shared_bytes, threads."
        ),
    ] = None,
    histogram: Annotated[bool, typer.Option("--histogram", help="A histogram of times.")] = False,
    counts: Annotated[
        bool, typer.Option("--counts", help="Numbers of valid configurations, by limiter.")
    ] = False,
    per: Annotated[str | None, typer.Option(metavar="NAMES", help=PER)] = None,
    where: Annotated[
        str | None,
        typer.Option(metavar="EXPRESSION", help="Keep only matching rows: 'time_s < 1e-3 and possible'."),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="NAMES", help="The columns to write, of all rows.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="The file to write: .parquet for all rows; reduced results also .csv or .json.",
        ),
    ] = None,
    execution: ExecutorOptions,
    simulator: inputs.SimulatorOptions,
    screen: Screen,
) -> None:
    """Predict all configurations of kernels at all sizes on all GPUs with all models.

    --top, --pareto, --histogram and --counts reduce the predictions while they are computed; else all rows
    are written to --out. An interrupted sweep with --out resumes when it is started again.

    Default models are all closed forms if all rows are written, else phase. --set applies to the kernels with
    such a parameter or size.
    """
    reductions = {"--top": top, "--pareto": pareto, "--histogram": histogram, "--counts": counts}
    stated = [name for name, value in reductions.items() if value]
    if len(stated) > 1:
        raise DseError(f"{stated[1]}: found together with {stated[0]}, expected one of them")
    if not stated and out is None:
        raise DseError(f"--out: found none, expected a file for all rows, or one of {', '.join(reductions)}")
    for name, value in (("--per", per), ("--json", screen.json), ("--csv", screen.csv)):
        if value and not stated:
            raise DseError(f"{name}: found without {', '.join(reductions)}, expected one of them")
    if columns and stated:
        raise DseError(f"--columns: found together with {stated[0]}, expected it where all rows are written")
    models = inputs.models(model, (DEFAULT,) if stated else CLOSED_FORMS, simulator)
    from dse.data.tables import write_rows
    from dse.explore.sweep.product import SweepProduct
    from dse.explore.sweep.run import clear, parts_of
    from dse.explore.sweep.sweep import Sweep
    from dse.report.conclusion import quantity
    from dse.report.show import progress

    names = ", ".join(model.name for model in models)
    product = SweepProduct.of(inputs.several(kernel, inputs.lists(changed)), inputs.gpus(gpu), models)
    swept = Sweep(product, None, execution.workers, execution.cluster, progress)
    if where is not None:
        swept = swept.filtered(where)
    if not stated:
        assert out is not None
        count = swept.to_parquet(out, _words(columns))
        screen.conclude(f"{count:,} rows of predictions by {names}", wrote=out, then=f"dse report {out}")
        return
    rows = _reduced(swept, stated[0], reductions[stated[0]], _words(per), out)
    constant = [name for name in ("kernel", "gpu", "model") if len({row.get(name) for row in rows}) == 1]
    title = ", ".join(str(rows[0][name]) for name in constant if rows[0].get(name)) or None
    if out is None:
        screen.present(rows, title=title, hidden=constant)
    else:
        write_rows(out, rows)
        clear(parts_of(out))  # after the file was written
    timed = [row for row in rows if row.get("time_s") is not None]
    best = min(timed, key=lambda row: row["time_s"], default=None)
    finding = f"{len(rows):,} rows by {names}"
    if best is not None:
        which = ", ".join(str(best[name]) for name in ("kernel", "gpu") if best.get(name))
        finding = f"fastest of {len(rows):,} rows: {which}: {quantity(best['time_s'])}"
        finding += f" by {best.get('model', names)}"
    screen.conclude(finding, wrote=out, then=f"dse report {out}" if out else "-o FILE writes them")


def _reduced(
    swept: "Sweep", reduction: str, value: Any, per: list[str] | None, out: Path | None
) -> list[dict[str, Any]]:
    """Reduce a sweep, with checkpoints beside the file `out`."""
    from dse.data.tables import check_suffix
    from dse.explore.sweep.run import parts_of

    folder = None
    if out is not None:
        check_suffix(out)
        folder = parts_of(out)
    if reduction == "--top":
        return swept.top(value, per, folder)
    if reduction == "--pareto":
        return swept.pareto(*(_words(value) or ()), per=per, checkpoint=folder)
    if reduction == "--histogram":
        return swept.histogram(per, folder)
    return swept.counts(per, folder)


def _words(text: str | None) -> list[str] | None:
    return None if text is None else [word.strip() for word in text.split(",") if word.strip()]

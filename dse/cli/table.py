"""`dse table`: find the best configurations for each problem size, as files for other programs (FORMATS)."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dse.bridges.tables import EXPERTS, FORMATS, PRODUCT, BestConfigurations, Format, form
from dse.cli import inputs
from dse.cli.options import Screen, command
from dse.core.files import replacing
from dse.errors import DseError, check_names

if TYPE_CHECKING:
    from dse.hardware.gpus import GpuFile

TOKENS = "1,2,4,8,16,24,32,48,64,96,128,256,512,1024,1536,2048,3072,4096"  # as tuned by vLLM
MATRIX = (*EXPERTS, "mm")  # with closed forms
READ_BY = ", ".join(FORMATS)
BY_TIMES = "By measured times"  # a panel of --help-all
RUNS = 20  # of a command, per batch size


@command(
    "Example: [bold]dse table moe --gpu b200 --set E=256 --set N=512 --set K=7168 --set topk=8 "
    "--dtype fp8_w8a8 --block 128x128 --format vllm -o configs[/bold]; "
    "[bold]dse table w8a8 -g h20 --set N=7168 --set K=2048 --dtype fp8_w8a8 --block 128x128 "
    "--measured times.csv[/bold]; [bold]dse table gemm -g a4000 --for m=1024,4096 --for n=1024,4096 "
    "--format triton -o tables[/bold]; [bold]dse table inductor -g h100-sxm --shapes shapes.csv "
    "-o table.json[/bold]"
)
def table(
    kernel: Annotated[
        str,
        typer.Argument(
            metavar="KERNEL",
            help="moe or fused_moe: a layer of experts; w8a8: a block-scaled product; mm: a dense one; "
            "product, or a format of such: matrix products in the file of --shapes; or any kernel of "
            "`dse kernels` or a file, as for `dse rank`.",
        ),
    ],
    gpu: inputs.GpuOption,
    *,
    sizes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="moe: E, N (of one projection), K (hidden), topk; w8a8 and mm: N, K; else a size or "
            "parameter.",
        ),
    ] = None,
    tokens: Annotated[
        list[str] | None,
        typer.Option(
            "--for",
            metavar="NAME=NUMBERS",
            help="Rows: batch sizes M=1,2,4 of moe, w8a8 and mm, else problem sizes; repeatable.",
        ),
    ] = None,
    dtype: Annotated[
        str, typer.Option(help="bf16, fp16, fp8_w8a8, int8_w8a8 or int8_w8a16; for mm also tf32 or fp32.")
    ] = "bf16",
    block: Annotated[
        str | None,
        typer.Option(metavar="COLUMNSxDEPTH", help="Block of a scale, as 128x128."),
    ] = None,
    style: Annotated[
        str | None,
        typer.Option("--format", help=f"Write the file read by: {READ_BY}."),
    ] = None,
    shapes: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Products: columns M, N, K, ...; or the log of torch.compile."),
    ] = None,
    first: Annotated[
        int | None, typer.Option(min=1, help="With --shapes: configurations of each product, best first.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", metavar="MODEL", help="For kernels other than moe, w8a8 and mm."),
    ] = None,
    source: inputs.SourceOption = False,
    device: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="torch.cuda.get_device_name(), if different."),
    ] = None,
    measured: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=BY_TIMES,
            metavar="FILE",
            help="CSV or Parquet: M, parameters, seconds; corrects the choice.",
        ),
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=BY_TIMES,
            metavar="TEXT",
            help="Command to measure: {NAME} is a value; prints the time last.",
        ),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(rich_help_panel=BY_TIMES, min=1, help="Runs of --command per batch size; default: 20."),
    ] = None,
    unit: Annotated[
        str, typer.Option(rich_help_panel=BY_TIMES, help="Unit of the printed time: s, ms, us or ns.")
    ] = "ms",
    journal: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=BY_TIMES,
            metavar="FILE.jsonl",
            help="Records each run of --command at once; run again to resume.",
        ),
    ] = None,
    screen: Screen,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="PATH", help="A file, or a folder; default: print."),
    ] = None,
) -> None:
    """Find the best configuration of a kernel for each problem size, without a GPU.

    For Triton's matrix kernels moe and w8a8, --format writes the file that vLLM (VLLM_TUNED_CONFIG_FOLDER) or
    SGLang (SGLANG_MOE_CONFIG_DIR) looks for before using a default configuration; without it, predicted times
    are printed. For products in --shapes, it writes the file of a compiler's autotuner. For any kernel, it
    writes json, csv, or Python source for triton.

    With --measured or --command, measured times correct the choice, also for batch sizes without any.
    """
    unit_s = inputs.in_seconds(unit)
    for name, value in (("--budget", budget), ("--journal", journal)):
        if value is not None and command is None:
            raise DseError(f"{name}: found without --command, expected both")
    if kernel in FORMATS and PRODUCT in FORMATS[kernel].kernels:
        if style not in (None, kernel):
            raise DseError(f"--format: found {style!r} with {kernel}, expected none")
        kernel, style = PRODUCT, kernel
    kernel = "moe" if kernel == "fused_moe" else kernel
    try:
        target = form(style, kernel) if style is not None else None
    except DseError as error:
        raise DseError(f"--{error}") from None
    if out is not None and target is None:
        raise DseError(f"--out: found without --format, expected --format {' or '.join(FORMATS)}")
    [file] = inputs.gpus([gpu])
    for name, value in {"--shapes": shapes, "--first": first}.items():
        if (value is not None) > (kernel == PRODUCT):
            raise DseError(f"{name}: found with {kernel}, expected it with {PRODUCT}")
    if kernel not in MATRIX:
        only = {"--measured": measured, "--command": command, "--block": block}
        for name, value in only.items():
            if value is not None:
                raise DseError(f"{name}: found with {kernel}, expected it with {' or '.join(MATRIX)}")
        if kernel == PRODUCT:
            _give(_of_products(file, shapes, target, first, device or ""), target, out, screen)
        else:
            _give(_of_any(kernel, file, sizes, tokens, model, source), target, out, screen)
        return
    if model is not None or source:
        raise DseError(f"--{'model' if model else 'source'}: found with {kernel}, expected another kernel")
    numbers = _numbers(tokens or [f"M={TOKENS}"])
    shape = _block(block)
    from dse.explore.matrix.table import Kernel, best  # imports jax: seconds
    from dse.models.matrix.configuration import NAMES

    stated = inputs.settings(sizes)
    products = Kernel(kernel, stated, dtype, shape)
    parameters = NAMES[: products.configurations(file).shape[1]]
    timed = None
    if measured is not None:
        from dse.explore.matrix.tune import read

        timed = read(measured, products, file)
    if command is not None:
        from dse.explore.matrix.tune import tuned
        from dse.explore.tune import loop
        from dse.report.show import progress

        loop.check_command(command, dict.fromkeys(("M", *parameters)))
        measure, runs = loop.commanded(command, unit_s), budget or RUNS
        with progress(f"Tuning {kernel}", runs * len(numbers)) as advance:
            timed = tuned(file, products, numbers, measure, runs, journal, timed, advance)
    rows = best(file, products, numbers, timed)
    problems = [[row] for row in rows]
    best_ones = BestConfigurations(
        kernel, file.name, ["M"], parameters, problems, products, device or "", file.header.device or ""
    )
    _give(best_ones, target, out, screen)


def _of_products(
    file: "GpuFile", shapes: Path | None, target: Format | None, first: int | None, device: str
) -> BestConfigurations:
    """Rank the configurations of products of matrices."""
    if shapes is None:
        raise DseError("--shapes: found none, expected a file with columns M, N and K, or a log")
    count = first or (target.first if target else 1)
    if target and count > 1 and not target.several:
        raise DseError(f"--first: found {count} with this format, expected 1")
    from dse.bridges.calls import read, table_of

    return table_of(file, read(shapes), count, device)


def _of_any(
    name: str,
    file: "GpuFile",
    fixed: list[str] | None,
    over: list[str] | None,
    model: str | None,
    source: bool,
) -> BestConfigurations:
    """Find the best configuration of a kernel for each size."""
    lists = inputs.lists(over, "--for")
    counts, problem = inputs.kernel(name, inputs.settings(fixed), source=source)
    if not lists:
        raise DseError(f"--for: found none, expected NAME=V1,V2,... of {', '.join(problem)}")
    check_names("--for", problem, *lists)
    from dse import api
    from dse.report.show import progress

    models = inputs.models([model] if model else None)
    rows = api.sweep(counts, file, models, {**problem, **lists}, progress=progress).top(1, ["size"])
    return BestConfigurations(name, file.name, list(lists), counts.space.names, [[row] for row in rows])


def _give(table: BestConfigurations, target: Format | None, out: Path | None, screen: Screen) -> None:
    """Print rows as a table, or print or write them in the target format."""
    sure = "by measured times" if any("by" in row for row in table.rows) else "predicted"
    finding = f"best of {table.title} for {len(table.problems):,} problem{'s' * (len(table.problems) > 1)}"
    if target is None:
        screen.present(table.rows, title=table.title)
        formats = [name for name, row in FORMATS.items() if not row.kernels or table.kernel in row.kernels]
        then = f"--format {' or '.join(formats)} writes its file"
        screen.conclude(finding, sure=sure, then=then)
        return
    from dse.report.conclusion import conclude

    content, name = target.text(table), target.file_name(table)
    if shipped := target.shipped(table):
        finding += f"; {shipped}"
    if out is None:
        print(content, end="")
        if shipped:
            conclude(finding, sure=sure, aside=True)
    else:
        print(_write(content, out, name))
        conclude(finding, sure=f"{sure}; read by {target.reader}", aside=True)


def _write(content: str, out: Path, name: str) -> Path:
    """Write `out` if it has the format's suffix, else a file in the folder `out`; return the path."""
    path = out if out.suffix == Path(name).suffix and not out.is_dir() else out / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DseError(f"--out: found {str(path.parent)!r}, expected a folder: {error.strerror}") from None
    with replacing(path) as temporary:
        temporary.write_text(content, encoding="utf-8")
    return path


def _numbers(texts: Sequence[str]) -> list[int]:
    text = ",".join(texts)
    name, _, values = text.partition("=")
    try:
        numbers = [int(value) for value in values.split(",")]
    except ValueError:
        numbers = []
    if name.strip() != "M" or not numbers or min(numbers) < 1:
        raise DseError(f"--for: found {text!r}, expected M= and whole numbers of at least 1, as M=1,2,4")
    return sorted(set(numbers))


def _block(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    columns, x, depth = text.partition("x")
    if not (x and columns.isdigit() and depth.isdigit() and int(columns) and int(depth)):
        raise DseError(f"--block: found {text!r}, expected two numbers, as 128x128")
    return int(columns), int(depth)

"""`dse table`: the best configuration for each problem size, as files for programs: vLLM, SGLang, Triton."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dse.cli import inputs
from dse.cli.options import CsvOption, JsonOption, present
from dse.core.files import replacing
from dse.errors import DseError, one_of

if TYPE_CHECKING:
    from dse.hardware.gpus.read import GpuFile

app = typer.Typer(rich_markup_mode="rich")

TOKENS = "1,2,4,8,16,24,32,48,64,96,128,256,512,1024,1536,2048,3072,4096"  # those that vLLM tunes
MATRIX = ("moe", "fused_moe", "w8a8", "mm")
MATRIX_STYLES = ("vllm", "sglang")
STYLES = (*MATRIX_STYLES, "json", "csv", "triton")
UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
RUNS = 20  # of a command, for each batch size


@app.command(
    epilog="Example: [bold]dse table moe --gpu b200 --set E=256 --set N=512 --set K=7168 --set topk=8 "
    "--dtype fp8_w8a8 --block 128x128 --format vllm -o configs[/bold]; "
    "[bold]dse table w8a8 -g h20 --set N=7168 --set K=2048 --dtype fp8_w8a8 --block 128x128 "
    "--measured times.csv[/bold]; [bold]... --budget 20 --command 'python bench.py {M} {BLOCK_SIZE_M} "
    "{BLOCK_SIZE_N} {BLOCK_SIZE_K} {GROUP_SIZE_M} {num_warps} {num_stages}' --unit us "
    "--journal table.jsonl[/bold]; [bold]dse table gemm -g a4000 --for m=1024,4096 --for n=1024,4096 "
    "--format triton -o tables[/bold]"
)
def table(
    kernel: Annotated[
        str,
        typer.Argument(
            metavar="KERNEL",
            help="moe or fused_moe: a layer of experts; w8a8: a block-scaled product; mm: a dense one; or "
            "any kernel of `dse kernels` or a file, as `dse rank` takes it.",
        ),
    ],
    gpu: inputs.GpuOption,
    sizes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="moe: E, N (of one projection), K (hidden), topk; w8a8 and mm: N, K; else a size or a "
            "parameter.",
        ),
    ] = None,
    tokens: Annotated[
        list[str] | None,
        typer.Option(
            "--for",
            metavar="NAME=NUMBERS",
            help="The rows: batch sizes M=1,2,4 of moe, w8a8 and mm, else problem sizes; repeatable.",
        ),
    ] = None,
    dtype: Annotated[
        str, typer.Option(help="bf16, fp16, fp8_w8a8, int8_w8a8 or int8_w8a16; of mm, tf32 or fp32, too.")
    ] = "bf16",
    block: Annotated[
        str | None,
        typer.Option(metavar="COLUMNSxDEPTH", help="Of a scale, as 128x128, if blocks have scales."),
    ] = None,
    style: Annotated[
        str | None,
        typer.Option("--format", help="Write the file that vllm or sglang loads, or json, csv or triton."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", metavar="MODEL", help="Of kernels other than moe, w8a8 and mm."),
    ] = None,
    source: inputs.SourceOption = False,
    device: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="As torch.cuda.get_device_name() says, if it is another."),
    ] = None,
    measured: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="CSV or Parquet: M, parameters, seconds; corrects what is chosen."),
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Measures: {NAME} becomes a value, its last number is the time."),
    ] = None,
    budget: Annotated[
        int | None, typer.Option(min=1, help="Of --command: runs for each batch size; 20 without it.")
    ] = None,
    unit: Annotated[str, typer.Option(help="Of what the command prints: s, ms, us or ns.")] = "ms",
    journal: Annotated[
        Path | None,
        typer.Option(metavar="FILE.jsonl", help="Of --command: keeps each run at once; run again to go on."),
    ] = None,
    json: JsonOption = False,
    csv: CsvOption = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Where the file goes; else it is printed."),
    ] = None,
) -> None:
    """Say the best configuration of a kernel for each problem size, without a GPU.

    Of Triton's matrix kernels moe and w8a8 with --format it is the file that vLLM (VLLM_TUNED_CONFIG_FOLDER)
    or SGLang (SGLANG_MOE_CONFIG_DIR) looks for before it falls back to a default configuration; without, a
    table with predicted times. Of any kernel it may be json, csv, or Python source for triton.

    With --measured or --command, measured times correct the choice, for batch sizes without any too.
    """
    if unit not in UNITS:
        raise DseError(f"--unit: found {unit!r}, {one_of(unit, UNITS)}")
    for name, value in (("--budget", budget), ("--journal", journal)):
        if value is not None and command is None:
            raise DseError(f"{name}: found without --command, expected both")
    if style is not None and style not in STYLES:
        raise DseError(f"--format: found {style!r}, {one_of(style, STYLES)}")
    if out is not None and style is None:
        raise DseError(f"--out: found without --format, expected --format {' or '.join(STYLES)}")
    [file] = inputs.gpus([gpu])
    if kernel not in MATRIX:
        only = {"--measured": measured, "--command": command, "--block": block, "--device": device}
        for name, value in only.items():
            if value is not None:
                raise DseError(f"{name}: found with {kernel}, expected it with {' or '.join(MATRIX)}")
        if style in MATRIX_STYLES:
            raise DseError(f"--format: {style}: found with {kernel}, expected {' or '.join(MATRIX)}")
        rows, keys, parameters = _of_any(kernel, file, sizes, tokens, model, source)
        _give(rows, keys, parameters, f"{kernel} on {file.name}", style, out, json, csv)
        return
    if model is not None or source:
        raise DseError(f"--{'model' if model else 'source'}: found with {kernel}, expected another kernel")
    numbers = _numbers(tokens or [f"M={TOKENS}"])
    shape = _block(block)
    from dse.explore.matrix.table import Kernel, best, text  # imports jax: seconds
    from dse.models.matrix.configuration import PARAMETERS

    given = inputs.settings(sizes)
    chosen = Kernel("moe" if kernel == "fused_moe" else kernel, given, dtype, shape)
    timed = None
    if measured is not None:
        from dse.explore.matrix.tune import read

        timed = read(measured, chosen)
    if command is not None:
        from dse.explore.matrix.tune import NAMES, tuned
        from dse.explore.tune import loop
        from dse.report.show import progress

        loop.check_command(command, dict.fromkeys(NAMES))
        measure, runs = loop.commanded(command, UNITS[unit]), budget or RUNS
        with progress(f"Tuning {kernel}", runs * len(numbers)) as advance:
            timed = tuned(file, chosen, numbers, measure, runs, journal, timed, advance)
    rows = best(file, chosen, numbers, timed)
    title = f"{kernel} on {file.name}"
    if style not in MATRIX_STYLES:
        _give(rows, ["M"], PARAMETERS, title, style, out, json, csv)
        return
    _write(text(rows), out, chosen.file_name(style, device or file.name))


def _of_any(
    name: str,
    file: "GpuFile",
    fixed: list[str] | None,
    over: list[str] | None,
    model: str | None,
    source: bool,
) -> tuple[list[dict[str, Any]], list[str], list[str]]:
    """Find the best configuration of a kernel for each size: rows, names of the sizes, and of parameters."""
    lists = inputs.lists(over, "--for")
    counts, problem = inputs.kernel(name, inputs.settings(fixed), source=source)
    if not lists:
        raise DseError(f"--for: found none, expected NAME=V1,V2,... of {', '.join(problem)}")
    for size in lists:
        if size not in problem:
            raise DseError(f"--for: found {size!r}, {one_of(size, problem)}")
    from dse.explore.sweep.product import Product
    from dse.explore.sweep.sweep import Sweep
    from dse.report.show import progress

    product = Product.of([(counts, {**problem, **lists})], [file], inputs.models([model] if model else None))
    keys, parameters = list(lists), list(counts.space.names)
    found = Sweep(product, progress=progress).top(1, ["size"])
    return [{name: row[name] for name in (*keys, *parameters, "time_s")} for row in found], keys, parameters


def _give(
    rows: list[dict[str, Any]],
    keys: Sequence[str],
    parameters: Sequence[str],
    title: str,
    style: str | None,
    out: Path | None,
    json: bool,
    csv: bool,
) -> None:
    """Print rows as a table, or print or write them in a format for programs."""
    if style is None:
        present(rows, title=title, json=json, csv=csv, out=None)
        return
    from dse.bridges.size_table import text

    suffix = "py" if style == "triton" else style
    _write(text(rows, keys, parameters, style), out, f"{title.replace('/', ' ')}.{suffix}")


def _write(content: str, out: Path | None, name: str) -> None:
    """Write a file into the folder `out`, or print it."""
    if out is None:
        print(content, end="")
        return
    path = out / name
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DseError(f"--out: found {str(out)!r}, expected a folder: {error.strerror}") from None
    with replacing(path) as temporary:
        temporary.write_text(content, encoding="utf-8")
    print(path)


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

"""`dse table`: the best configuration of a matrix kernel for each batch size, as vLLM and SGLang load it."""

from pathlib import Path
from typing import Annotated

import typer

from dse.cli import inputs
from dse.cli.options import CsvOption, JsonOption, present
from dse.errors import DseError, one_of
from dse.files import replacing

app = typer.Typer(rich_markup_mode="rich")

TOKENS = "1,2,4,8,16,24,32,48,64,96,128,256,512,1024,1536,2048,3072,4096"  # those that vLLM tunes
UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
RUNS = 20  # of a command, for each batch size


@app.command(
    epilog="Example: [bold]dse table moe --gpu b200 --set E=256 --set N=512 --set K=7168 --set topk=8 "
    "--dtype fp8_w8a8 --block 128x128 --format vllm -o configs[/bold]; "
    "[bold]dse table w8a8 -g h20 --set N=7168 --set K=2048 --dtype fp8_w8a8 --block 128x128 "
    "--measured times.csv[/bold]; [bold]... --budget 20 --command 'python bench.py {M} {BLOCK_SIZE_M} "
    "{BLOCK_SIZE_N} {BLOCK_SIZE_K} {GROUP_SIZE_M} {num_warps} {num_stages}' --unit us "
    "--journal table.jsonl[/bold]"
)
def table(
    kernel: Annotated[
        str,
        typer.Argument(
            metavar="KERNEL",
            help="moe or fused_moe: a layer of experts; w8a8: a block-scaled product.",
        ),
    ],
    gpu: inputs.GpuOption,
    sizes: Annotated[
        list[str],
        typer.Option(
            "--set", metavar="NAME=VALUE", help="moe: E, N (of one projection), K (hidden), topk; w8a8: N, K."
        ),
    ],
    tokens: Annotated[str, typer.Option("--for", metavar="M=NUMBERS", help="Batch sizes.")] = f"M={TOKENS}",
    dtype: Annotated[str, typer.Option(help="bf16, fp16, fp8_w8a8, int8_w8a8 or int8_w8a16.")] = "bf16",
    block: Annotated[
        str | None,
        typer.Option(metavar="COLUMNSxDEPTH", help="Of a scale, as 128x128, if blocks have scales."),
    ] = None,
    style: Annotated[
        str | None, typer.Option("--format", help="Write the file that vllm or sglang loads.")
    ] = None,
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
    """Say the best configuration of a Triton matrix kernel for each batch size, without a GPU.

    With --format it is the file that vLLM (VLLM_TUNED_CONFIG_FOLDER) or SGLang (SGLANG_MOE_CONFIG_DIR) looks
    for before it falls back to a default configuration; without, a table with predicted times.

    With --measured or --command, measured times correct the choice, for batch sizes without any too.
    """
    if unit not in UNITS:
        raise DseError(f"--unit: found {unit!r}, {one_of(unit, UNITS)}")
    for name, value in (("--budget", budget), ("--journal", journal)):
        if value is not None and command is None:
            raise DseError(f"{name}: found without --command, expected both")
    numbers = _numbers(tokens)
    shape = _block(block)
    [file] = inputs.gpus([gpu])
    from dse.matrix.table import FORMATS, Kernel, best, text  # imports jax: seconds

    if style is not None and style not in FORMATS:
        raise DseError(f"--format: found {style!r}, expected {' or '.join(FORMATS)}")
    if out is not None and style is None:
        raise DseError(f"--out: found without --format, expected --format {' or '.join(FORMATS)}")
    given = inputs.settings(sizes)
    chosen = Kernel("moe" if kernel == "fused_moe" else kernel, given, dtype, shape)
    timed = None
    if measured is not None:
        from dse.tuning.matrix import read

        timed = read(measured, chosen)
    if command is not None:
        from dse.report.show import progress
        from dse.tuning import loop
        from dse.tuning.matrix import NAMES, tuned

        loop.check_command(command, dict.fromkeys(NAMES))
        measure, runs = loop.commanded(command, UNITS[unit]), budget or RUNS
        with progress(f"Tuning {kernel}", runs * len(numbers)) as advance:
            timed = tuned(file, chosen, numbers, measure, runs, journal, timed, advance)
    rows = best(file, chosen, numbers, timed)
    if style is None:
        present(rows, title=f"{kernel} on {file.name}", json=json, csv=csv, out=None)
        return
    if out is None:
        print(text(rows), end="")
        return
    path = out / chosen.file_name(style, device or file.name)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DseError(f"--out: found {str(out)!r}, expected a folder: {error.strerror}") from None
    with replacing(path) as temporary:
        temporary.write_text(text(rows), encoding="utf-8")
    print(path)


def _numbers(text: str) -> list[int]:
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

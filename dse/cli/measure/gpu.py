"""`dse measure gpu`: measure a GPU file by microbenchmarks."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dse.cli.measure.options import ARCHITECTURES, ArchOption, BudgetOption, DeviceOption, DryRunOption
from dse.cli.options import Screen, command
from dse.errors import DseError

if TYPE_CHECKING:
    from dse.measure.bench.benchmarks import Benchmark
    from dse.measure.bench.records import BenchRecording
    from dse.source.nvidia.compile.nvrtc import Compiled, Failure


@command(
    "Example: [bold]dse measure gpu -o mine.toml --records mine.parquet --report mine.html[/bold]; "
    "[bold]dse measure gpu mine.parquet -o mine.toml[/bold] derives the file again; "
    "[bold]dse measure gpu --dry-run --arch 90[/bold]"
)
def gpu(
    *,
    recorded: Annotated[
        Path | None,
        typer.Argument(
            metavar="[RECORDS]", help="Output of --records: nothing is measured, no GPU is needed."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE.toml", help="The GPU file to write.")
    ] = None,
    records: Annotated[
        Path | None,
        typer.Option(metavar="FILE.parquet", help="Write the raw measurements."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Draw the curves: .html, .svg or .png.")
    ] = None,
    budget: BudgetOption = None,
    device: DeviceOption = 0,
    dry_run: DryRunOption = False,
    arch: ArchOption = None,
    screen: Screen,
) -> None:
    """Measure λ and Λ of each class of instructions, memory, clock and limits: a GPU file for `--gpu`.

    λ is the cycles between two warp instructions of a pipe; Λ the cycles until the result is available.

    Also prints values without a field in the file: bandwidths by pattern, local memory, launches, and classes
    of instructions that share a pipe. Measurements are repeated until they agree within 1 %, or are marked.
    """
    if report is not None:
        from dse.report.save import suffix_of

        suffix_of(report)
    for path in (out, records, report):
        if path is not None and not path.parent.is_dir():
            raise DseError(f"{path}: found no folder {path.parent}, expected one that exists")
    if dry_run:
        rows = _dry_run_gpu(arch or ARCHITECTURES)
        screen.present(rows, title="Microbenchmarks")
        finding = f"{len(rows)} microbenchmarks compile, each with the loop that it should measure"
        screen.conclude(finding, then="run it without --dry-run on a GPU")
        return
    from dse.measure.bench.records import load

    recording = load(recorded) if recorded is not None else _measure_gpu(device, budget, records)
    from dse.measure.bench import derive
    from dse.measure.bench.gpu_file import write

    if report is not None:
        _draw(recording, report)
    values = derive.values(recording)
    if out is not None:
        write(recording, out)
    rows = [
        {"name": name, "value": value.value, "unit": value.unit, "spread": value.spread}
        for name, value in values.items()
    ]
    rows += derive.extras(recording)
    rows += [
        {
            "name": f"{pair.first} and {pair.second}",
            "value": "one pipe" if pair.one else "two pipes",
            "unit": "",
            "spread": min(pair.error_one, pair.error_two),
        }
        for pair in derive.shared_pipes(recording)
    ]
    screen.present(rows, title=recording.device["name"])
    finding, then = f"{len(values)} numbers of {recording.device['name']}", f"dse rank KERNEL --gpu {out}"
    screen.conclude(finding, sure="measured", wrote=out, then=then if out else "-o FILE.toml")
    for line in derive.warnings(recording, values):
        typer.echo(f"warning: {line}", err=True)


def _dry_run_gpu(architectures: Sequence[int]) -> list[dict[str, Any]]:
    """Return a row for each kernel and architecture. **Raises:** DseError for one with a wrong loop."""
    from dse.measure.bench.benchmarks import check

    rows, problems = [], []
    for arch in architectures:
        compiled = _compiled(arch)
        for result in check(list(compiled), list(compiled.values())):
            loop = ", ".join(f"{count} {opcode}" for opcode, count in result.counts.items())
            row = {"arch": arch, "kernel": result.build.name, "registers": result.registers, "loop": loop}
            rows.append({**row, "problem": result.problem})
            if result.problem:
                problems.append(f"sm_{arch}: {result.build.name}: {result.problem}")
    if problems:
        raise DseError(problems[0] + (f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""))
    return rows


def _compiled(arch: int) -> "dict[Benchmark, Compiled | Failure]":
    from dse.core.parallel import parallel_map
    from dse.measure.bench import benchmarks
    from dse.report.show import progress

    builds = benchmarks.builds()
    with progress(f"Compiling for sm_{arch}", len(builds)) as advance:
        jobs = [(build, arch) for build in builds]
        results = parallel_map(benchmarks.compiled, jobs, advance=advance)
    return dict(zip(builds, results, strict=True))


def _measure_gpu(ordinal: int, budget: float | None, path: Path | None) -> "BenchRecording":
    """Measure a GPU; measurements are always saved to `path`."""
    from dse.measure.bench import run as gpu
    from dse.measure.bench.records import BenchRecording, save
    from dse.measure.device import Device
    from dse.report.show import progress
    from dse.source.nvidia.compile.contract import Compiled

    with Device(ordinal) as device:
        arch, name = device.arch, device.name
        recording = BenchRecording(gpu.described(device))
    compiled = {}
    for build, result in _compiled(arch).items():
        if not isinstance(result, Compiled):
            raise DseError(f"sm_{arch}: {build.name}: {result.message}")
        compiled[build] = result
    compiled, problems = _sound(compiled)
    try:
        with Device(ordinal) as device, progress(f"Measuring {name}", sum(gpu.planned().values())) as advance:
            problems += gpu.measure(device, compiled, recording, budget, advance)
    finally:
        if path is not None and recording.records:
            save(recording, path)
    for problem in problems:
        typer.echo(f"warning: {problem}", err=True)
    return recording


def _sound(compiled: "dict[Benchmark, Compiled]") -> "tuple[dict[Benchmark, Compiled], list[str]]":
    """Return the benchmarks whose machine code is as intended, and the problems of the others."""
    from dse.measure.bench.benchmarks import check

    try:
        checked = check(list(compiled), list(compiled.values()))
    except DseError as error:  # no disassembler
        return compiled, [f"machine code: not checked: {error}"]
    problems = [f"{result.build.name}: {result.problem}" for result in checked if result.problem]
    return {result.build: compiled[result.build] for result in checked if not result.problem}, problems


def _draw(recording: "BenchRecording", path: Path) -> None:
    from dse.measure.bench import derive
    from dse.report.measured import curves
    from dse.report.save import save_chart

    device = recording.device
    title = f"{device['name']}: {device['date']}, driver for CUDA {device['driver']}, {device['compiler']}"
    points = [vars(point) for point in derive.curves(recording)]
    save_chart(curves(points, derive.CHARTS, title=title), path)

"""`dse measure`: what only a GPU tells, by microbenchmarks and by timing our kernels on it."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dse.cli import inputs
from dse.cli.options import CsvOption, Group, JsonOption, OutOption, present
from dse.errors import DseError

if TYPE_CHECKING:
    from dse.cuda.compile.contract import Compiled, Failure
    from dse.measure.bench.benchmarks import Benchmark
    from dse.measure.bench.records import Recording
    from dse.measure.built import BuiltSpace
    from dse.measure.space import SpacePlan
    from dse.types import Gpu

app = typer.Typer(name="measure", cls=Group, rich_markup_mode="rich", no_args_is_help=True)

ARCHITECTURES = (80, 90)  # that a dry run compiles for, unless told

DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Compile everything and list what would run; needs no GPU.")
]
ArchOption = Annotated[
    list[int] | None,
    typer.Option(
        "--arch",
        metavar="N",
        help="Of --dry-run: compute capability, 90 for 9.0; repeatable. Default: 80, 90.",
    ),
]
BudgetOption = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", min=0.0, help="Stop after so long; what was measured is kept."),
]
DeviceOption = Annotated[int, typer.Option("--device", metavar="N", min=0, help="Which GPU, of several.")]


@app.callback()
def measure() -> None:
    """Measure a GPU, and kernels on it. Takes the extra `cuda` and NVIDIA's driver; no nvcc."""
    # Where JAX could use the GPU, it would take most of its memory.
    os.environ["JAX_PLATFORMS"] = "cpu"


@app.command(
    epilog="Example: [bold]dse measure gpu -o mine.toml --records mine.parquet --report mine.html[/bold]; "
    "[bold]dse measure gpu mine.parquet -o mine.toml[/bold] works out the file again; "
    "[bold]dse measure gpu --dry-run --arch 90[/bold]"
)
def gpu(
    recorded: Annotated[
        Path | None,
        typer.Argument(
            metavar="[RECORDS]", help="What --records wrote: nothing is measured, no GPU is needed."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE.toml", help="The GPU file to write.")
    ] = None,
    records: Annotated[
        Path | None,
        typer.Option(metavar="FILE.parquet", help="Keep what was measured, from which all else follows."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Draw the curves: .html, .svg or .png.")
    ] = None,
    budget: BudgetOption = None,
    device: DeviceOption = 0,
    dry_run: DryRunOption = False,
    arch: ArchOption = None,
    json: JsonOption = False,
    csv: CsvOption = False,
) -> None:
    """Measure λ and Λ of each class of instructions, memory, clock and limits: a GPU file for `--gpu`.

    λ is how many cycles a pipe of an SM takes for one warp instruction before it accepts the next; Λ is how
    many cycles until the result is there.

    Prints what the file has no place for: bandwidths by pattern, local memory, launches, and which classes of
    instructions share a pipe. Measurements are repeated until they lie within 1 %, or said not to.
    """
    if report is not None:
        from dse.report.save import suffix_of

        suffix_of(report)
    for path in (out, records, report):
        if path is not None and not path.parent.is_dir():
            raise DseError(f"{path}: found no folder {path.parent}, expected one that exists")
    if dry_run:
        present(_dry_run_gpu(arch or ARCHITECTURES), title="Microbenchmarks", json=json, csv=csv, out=None)
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
    present(rows, title=recording.device["name"], json=json, csv=csv, out=None)
    for line in derive.warnings(recording, values):
        typer.echo(f"warning: {line}", err=True)


def _dry_run_gpu(architectures: Sequence[int]) -> list[dict[str, Any]]:
    """Return a row for each kernel and architecture. DseError if one does not measure what it should."""
    from dse.measure.bench.benchmarks import check

    rows, problems = [], []
    for arch in architectures:
        made = _compiled(arch)
        for result in check(list(made), list(made.values())):
            loop = ", ".join(f"{count} {opcode}" for opcode, count in result.found.items())
            row = {"arch": arch, "kernel": result.build.name, "registers": result.registers, "loop": loop}
            rows.append({**row, "problem": result.problem})
            if result.problem:
                problems.append(f"sm_{arch}: {result.build.name}: {result.problem}")
    if problems:
        raise DseError(problems[0] + (f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""))
    return rows


def _compiled(arch: int) -> "dict[Benchmark, Compiled | Failure]":
    from dse.cuda.parallel import each
    from dse.measure.bench import benchmarks
    from dse.report.show import progress

    builds = benchmarks.builds()
    done = 0
    with progress(f"Compiling for sm_{arch}", len(builds)) as advance:

        def now(count: int) -> None:
            nonlocal done
            advance(count - done)
            done = count

        results = each(benchmarks.compiled, [(build, arch) for build in builds], progress=now)
    return dict(zip(builds, results, strict=True))


def _measure_gpu(ordinal: int, budget: float | None, path: Path | None) -> "Recording":
    """Measure a GPU; what was measured is kept in `path` whatever happens."""
    from dse.cuda.compile.contract import Compiled
    from dse.measure.bench import run as gpu
    from dse.measure.bench.records import Recording, save
    from dse.measure.device import Device
    from dse.report.show import progress

    with Device(ordinal) as device:
        arch, name = device.arch, device.name
        recording = Recording(gpu.described(device))
    made = {}
    for build, result in _compiled(arch).items():
        if not isinstance(result, Compiled):
            raise DseError(f"sm_{arch}: {build.name}: {result.message}")
        made[build] = result
    made, problems = _sound(made)
    try:
        with Device(ordinal) as device, progress(f"Measuring {name}", sum(gpu.planned().values())) as advance:
            problems += gpu.measure(device, made, recording, budget, advance)
    finally:
        if path is not None and recording.records:
            save(recording, path)
    for problem in problems:
        typer.echo(f"warning: {problem}", err=True)
    return recording


def _sound(made: "dict[Benchmark, Compiled]") -> "tuple[dict[Benchmark, Compiled], list[str]]":
    """Return those whose machine code is as it should be, and what is wrong with the others."""
    from dse.measure.bench.benchmarks import check

    try:
        checked = check(list(made), list(made.values()))
    except DseError as error:  # there is nothing to look with
        return made, [f"machine code: not looked at: {error}"]
    problems = [f"{result.build.name}: {result.problem}" for result in checked if result.problem]
    return {result.build: made[result.build] for result in checked if not result.problem}, problems


def _draw(recording: "Recording", path: Path) -> None:
    from dse.measure.bench import derive
    from dse.report.measured import curves
    from dse.report.save import save_chart

    device = recording.device
    title = f"{device['name']}: {device['date']}, driver for CUDA {device['driver']}, {device['compiler']}"
    points = [vars(point) for point in derive.curves(recording)]
    save_chart(curves(points, derive.CHARTS, title=title), path)


KernelsArgument = Annotated[
    list[str], typer.Argument(metavar="KERNEL...", help="Kernels of `dse kernels` that have source.")
]
SampleOption = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="So many configurations of each, at random.")
]
SeedOption = Annotated[
    int, typer.Option(min=0, max=inputs.MOST_SEED, help="Of the order, and so of --sample.")
]
CasesOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE.csv", help="Problem sizes: a column each, a row for each case."),
]


@app.command(
    epilog="Example: [bold]dse measure build triton_moe --cases cases.csv --gpu h100-sxm -o h100.zip[/bold]; "
    "there: [bold]dse measure space --built h100.zip -o moe.parquet[/bold]"
)
def build(
    names: KernelsArgument,
    gpu: inputs.GpuOption,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE.zip", help="The file to write, or to add to.")
    ],
    sample: SampleOption = None,
    seed: SeedOption = 0,
    changed: inputs.SetOption = None,
    cases: CasesOption = None,
    json: JsonOption = False,
    csv: CsvOption = False,
) -> None:
    """Compile configurations for `dse measure space --built`, where Triton or another compiler is not.

    Needs no GPU. What FILE.zip has of other kernels and cases stays in it.
    """
    from dse import gpus
    from dse.cuda.source_kernel import architecture
    from dse.measure import built
    from dse.measure.space import build as build_plan
    from dse.report.show import progress

    file = gpus.load(gpu)
    plans = _plans(names, changed, sample, seed, file.gpu, cases)
    arch = {architecture(file.gpu, plan.source) for plan in plans}.pop()  # type: ignore[arg-type]
    earlier = built.read(out) if out.is_file() else built.Built(out, arch, ())
    if earlier.arch != arch:
        raise DseError(f"{out}: architecture: found sm_{earlier.arch}, expected sm_{arch} of {file.name}")
    if not out.parent.is_dir():
        raise DseError(f"{out}: found no folder {out.parent}, expected one that exists")
    spaces = []
    for plan in plans:
        with progress(f"Compiling {_title(plan)} for sm_{arch}", len(plan.parameters)) as advance:
            spaces.append(build_plan(plan, arch, file.gpu, advance))
    built.write(out, arch, built.together(earlier.spaces, spaces))
    present([_built_row(space, arch) for space in spaces], title=str(out), json=json, csv=csv, out=None)
    typer.echo(f"{out}: {out.stat().st_size / 1e6:,.1f} MB", err=True)


def _built_row(space: "BuiltSpace", arch: int) -> dict[str, Any]:
    from collections import Counter

    from dse.cuda.compile.contract import Failure

    reasons = Counter(one.reason for one in space.made if isinstance(one, Failure))
    return {
        "arch": arch,
        "kernel": space.kernel,
        "sizes": _in_words(space.sizes),
        "taken": len(space.made),
        "codes": len({one for one in space.made if not isinstance(one, Failure)}),
        "refused": ", ".join(f"{count} {reason}" for reason, count in reasons.items()),
    }


def _in_words(sizes: Mapping[str, int | float]) -> str:
    return ", ".join(f"{name}={size:g}" for name, size in sizes.items())


def _title(plan: "SpacePlan") -> str:
    """Name a kernel, with its problem sizes where they are not the usual ones."""
    changed = {
        name: size for name, size in plan.sizes.items() if dict(plan.description.problem)[name] != size
    }
    return f"{plan.name} ({_in_words(changed)})" if changed else plan.name


@app.command(
    epilog="Example: [bold]dse measure space reduction -o reduction.parquet[/bold]; "
    "[bold]dse measure space gemm convolution --sample 500 --budget 300 -o spaces.parquet[/bold]; "
    "[bold]dse measure space nbody --sample 10 --occupancy-sweep -o sweep.parquet[/bold]; "
    "[bold]dse measure space --built h100.zip -o triton.parquet[/bold]"
)
def space(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KERNEL...",
            help="Kernels of `dse kernels` that have source; with --built, all of the file.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE.parquet", help="The table to write.")
    ] = None,
    sample: SampleOption = None,
    seed: SeedOption = 0,
    occupancy_sweep: Annotated[
        bool,
        typer.Option(
            "--occupancy-sweep",
            help="Time each with all blocks that an SM holds, one fewer, and so on down to one: dynamic "
            "shared memory takes the room of the others.",
        ),
    ] = False,
    budget: BudgetOption = None,
    repeats: Annotated[
        int, typer.Option(metavar="N", min=1, help="Timings of a configuration, at most.")
    ] = 7,
    changed: inputs.SetOption = None,
    cases: CasesOption = None,
    built: Annotated[
        Path | None,
        typer.Option(metavar="FILE.zip", help="What `dse measure build` compiled: nothing else is measured."),
    ] = None,
    device: DeviceOption = 0,
    dry_run: DryRunOption = False,
    arch: ArchOption = None,
    json: JsonOption = False,
    csv: CsvOption = False,
) -> None:
    """Time configurations of kernels on this GPU, each checked against NumPy: a table for `dse compare`.

    Started again with the same FILE it goes on where it stopped, whatever stopped it. With several kernels,
    or cases of problem sizes, the table has the rows of all; `dse measure store` parts them.
    """
    if not names and built is None:
        raise DseError("KERNEL: found none, expected one or more, or --built FILE.zip")
    if built is not None and (dry_run or cases):
        raise DseError(
            f"--built: found it with {'--dry-run' if dry_run else '--cases'}, expected one of them"
        )
    if dry_run:
        rows = [
            row
            for target in arch or ARCHITECTURES
            for plan in _plans(names or (), changed, sample, seed, _like("", target), cases)
            for row in [_dry_run_space(plan, target)]
        ]
        present(rows, title="Spaces", json=json, csv=csv, out=None)
        return
    if out is None:
        raise DseError("--out: found none, expected FILE.parquet")
    from datetime import UTC, datetime

    from dse.measure.device import Device
    from dse.measure.journal import Journal
    from dse.measure.space import measure as measure_plans
    from dse.measure.timing import TimingSettings
    from dse.report.show import progress

    with Device(device) as opened:
        name, architecture, driver = opened.name, opened.arch, opened.driver_version
    like = _like(name, architecture)
    if built is None:
        plans = _plans(names or (), changed, sample, seed, like, cases)
    else:
        plans = _built_plans(built, names or (), changed, sample, seed, like, architecture)
    about = {
        "gpu": name,
        "sweep": occupancy_sweep,
        "driver": driver,
        "compiler": ", ".join(dict.fromkeys(plan.source.compiler for plan in plans)),
        "date": datetime.now(UTC).date().isoformat(),
        "kernels": {plan.name: {"digest": plan.source.digest} for plan in plans},
    }
    journal, done = Journal(out, about), False
    before = len(journal.rows)
    settings = TimingSettings(repeats=repeats, sweep=occupancy_sweep)
    total = sum(len(plan.parameters) for plan in plans)
    try:
        with progress(f"Timing on {name}", total) as advance:
            done = measure_plans(plans, architecture, journal, settings, budget, advance, ordinal=device)
    finally:
        journal.close(done=done)
    present(_summary(plans, journal.rows), title=f"{name}, {out}", json=json, csv=csv, out=None)
    added = len(journal.rows) - before
    end = "all done" if done else "time is up; the same command goes on"
    typer.echo(f"{out}: {added:,} rows more, {len(journal.rows):,} in all; {end}", err=True)


def _plans(
    names: Sequence[str],
    changed: inputs.SetOption,
    sample: int | None,
    seed: int,
    gpu: "Gpu",
    cases: Path | None = None,
) -> "list[SpacePlan]":
    from dse.measure.cases import read
    from dse.measure.space import plan

    sizes = inputs.settings(changed)
    rows = [{}] if cases is None else read(cases)
    kernels = [pair for row in rows for pair in inputs.several_descriptions(names, {**row, **sizes})]
    return [plan(description, sizes, gpu, sample, seed) for description, sizes in kernels]


def _built_plans(
    path: Path,
    names: Sequence[str],
    changed: inputs.SetOption,
    sample: int | None,
    seed: int,
    gpu: "Gpu",
    arch: int,
) -> "list[SpacePlan]":
    from dse.measure.built import read
    from dse.measure.space import plan

    built, sizes = read(path), inputs.settings(changed)
    if built.arch != arch:
        raise DseError(f"{path}: architecture: found sm_{built.arch}, expected sm_{arch} of this GPU")
    plans = []
    for one in built.of(names, sizes):
        [(description, _)] = inputs.several_descriptions([one.kernel], sizes)
        plans.append(plan(description, one.sizes, gpu, sample, seed, one))
    return plans


def _like(name: str, arch: int) -> "Gpu":
    """Return the fields of a GPU that expressions of a kernel may ask for."""
    from dse.measure.bench.gpu_file import like

    return like(name or f"sm_{arch}", f"{arch // 10}.{arch % 10}").gpu


def _dry_run_space(plan: "SpacePlan", arch: int) -> dict[str, Any]:
    from collections import Counter

    from dse.cuda.compile.contract import Failure
    from dse.measure.space import dry_run
    from dse.report.show import progress

    with progress(f"Compiling {_title(plan)} for sm_{arch}", len(plan.parameters)) as advance:
        made = dry_run(plan, arch, advance)
    reasons = Counter(failure.reason for failure in made if isinstance(failure, Failure))
    return {
        "arch": arch,
        "kernel": _title(plan),
        "configurations": plan.valid,
        "taken": len(made),
        "compiled": len(made) - reasons.total(),
        "refused": ", ".join(f"{count} {reason}" for reason, count in reasons.items()),
    }


def _summary(plans: "Sequence[SpacePlan]", rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sum up what there is of each kernel by now."""
    from collections import Counter

    table = []
    for plan in plans:
        own = [row for row in rows if row.items() >= {"kernel": plan.name, **plan.sizes}.items()]
        times = [row["time_ms"] for row in own if row["status"] == "ok"]
        failed = Counter(row["status"] for row in own if row["status"] != "ok")
        table.append(
            {
                "kernel": _title(plan),
                "configurations": plan.valid,
                "rows": len(own),
                "timed": len(times),
                "failed": ", ".join(f"{count} {status}" for status, count in failed.items()),
                "best_ms": min(times, default=None),
            }
        )
    return table


@app.command(epilog="Example: [bold]dse measure store results/*.parquet results/*.toml[/bold]")
def store(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="What `dse measure` wrote: .toml and .parquet.")
    ],
    out: OutOption = None,
    json: JsonOption = False,
    csv: CsvOption = False,
) -> None:
    """Put measurements where `--gpu` and `dse compare` find them: gpus/ and kernels/*/measured/."""
    import shutil

    from dse import catalogue, gpus
    from dse.measure import journal
    from dse.measure.bench.gpu_file import MEASURED, slug_of
    from dse.measure.space import store as store_rows

    rows = []
    for path in files:
        if path.suffix == ".toml":
            name = gpus.load(path).name.removesuffix(", measured")
            target = catalogue.folder("gpus") / f"{slug_of(name)}{MEASURED}.toml"
            shutil.copyfile(path, target)
            rows.append({"file": str(target), "rows": None})
        else:
            stored = store_rows(path, slug_of(journal.read(path)[0]["gpu"]))
            rows += [{"file": name, "rows": count} for name, count in stored.items()]
    present(rows, title="Stored", json=json, csv=csv, out=out)

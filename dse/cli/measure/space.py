"""`dse measure space`: time configurations on this GPU."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dse.cli import inputs
from dse.cli.measure.options import (
    ARCHITECTURES,
    ArchOption,
    BudgetOption,
    CasesOption,
    DeviceOption,
    DryRunOption,
    SampleOption,
    SeedOption,
)
from dse.cli.measure.plans import gpu_like, plan_all, plan_built, title
from dse.cli.options import Screen, command
from dse.errors import DseError

if TYPE_CHECKING:
    from dse.measure.space import SpacePlan


@command(
    "Example: [bold]dse measure space reduction -o reduction.parquet[/bold]; "
    "[bold]dse measure space gemm convolution --sample 500 --budget 300 -o spaces.parquet[/bold]; "
    "[bold]dse measure space nbody --sample 10 --occupancy-sweep -o sweep.parquet[/bold]; "
    "[bold]dse measure space --built h100.zip -o triton.parquet[/bold]"
)
def space(
    *,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KERNEL...",
            help="Kernels of `dse kernels` with source; default with --built: all in the file.",
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
            help="Time each at every number of resident blocks, limited by dynamic shared memory.",
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
        typer.Option(metavar="FILE.zip", help="Output of `dse measure build`; only its code is timed."),
    ] = None,
    device: DeviceOption = 0,
    dry_run: DryRunOption = False,
    arch: ArchOption = None,
    screen: Screen,
) -> None:
    """Time configurations of kernels on this GPU, each checked against NumPy: a table for `dse compare`.

    Started again with the same FILE, it resumes. With several kernels or cases, the table has the rows of
    all; `dse measure store` splits them.
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
            for plan in plan_all(names or (), changed, sample, seed, gpu_like("", target), cases)
            for row in [_dry_run_space(plan, target)]
        ]
        screen.present(rows, title="Spaces")
        compiled, taken = (sum(row[name] for row in rows) for name in ("compiled", "taken"))
        finding = f"{compiled:,} of {taken:,} configurations compile"
        screen.conclude(finding, then="run it without --dry-run on a GPU")
        return
    if out is None:
        raise DseError("--out: found none, expected FILE.parquet")
    from datetime import UTC, datetime

    from dse.measure.device import Device
    from dse.measure.journal import Journal
    from dse.measure.space import GpuProcess
    from dse.measure.space import measure as measure_plans
    from dse.measure.timing import TimingSettings
    from dse.report.show import progress

    with Device(device) as opened:
        name, architecture, driver = opened.name, opened.arch, opened.driver_version
    like = gpu_like(name, architecture)
    if built is None:
        plans = plan_all(names or (), changed, sample, seed, like, cases)
    else:
        plans = plan_built(built, names or (), changed, sample, seed, like, architecture)
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
    process = GpuProcess(TimingSettings(repeats=repeats, sweep=occupancy_sweep), device)
    total = sum(len(plan.parameters) for plan in plans)
    try:
        with progress(f"Timing on {name}", total) as advance:
            done = measure_plans(plans, architecture, journal, process, budget, advance)
    finally:
        journal.close(done=done)
    screen.present(_summary(plans, journal.rows), title=f"{name}, {out}")
    finding = f"{len(journal.rows) - before:,} rows more, {len(journal.rows):,} in all"
    then = f"dse measure store {out}" if done else "the same command continues"
    screen.conclude(finding, sure="all done" if done else "time is up", wrote=out, then=then)


def _dry_run_space(plan: "SpacePlan", arch: int) -> dict[str, Any]:
    from collections import Counter

    from dse.measure.space import dry_run
    from dse.report.show import progress
    from dse.source.contract import Failure

    with progress(f"Compiling {title(plan)} for sm_{arch}", len(plan.parameters)) as advance:
        results = dry_run(plan, arch, advance)
    reasons = Counter(failure.reason for failure in results if isinstance(failure, Failure))
    return {
        "arch": arch,
        "kernel": title(plan),
        "configurations": plan.valid,
        "taken": len(results),
        "compiled": len(results) - reasons.total(),
        "refused": ", ".join(f"{count} {reason}" for reason, count in reasons.items()),
    }


def _summary(plans: "Sequence[SpacePlan]", rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Summarize the rows of each kernel so far."""
    from collections import Counter

    table = []
    for plan in plans:
        own = [row for row in rows if row.items() >= {"kernel": plan.name, **plan.sizes}.items()]
        times = [row["time_ms"] for row in own if row["status"] == "ok"]
        failed = Counter(row["status"] for row in own if row["status"] != "ok")
        table.append(
            {
                "kernel": title(plan),
                "configurations": plan.valid,
                "rows": len(own),
                "timed": len(times),
                "failed": ", ".join(f"{count} {status}" for status, count in failed.items()),
                "best_ms": min(times, default=None),
            }
        )
    return table

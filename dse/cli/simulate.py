"""`dse simulate`: simulate a configuration, a graph or a trace instruction by instruction."""

from pathlib import Path
from typing import Annotated

import typer

from dse.cli import inputs
from dse.cli.options import JsonOption, command
from dse.errors import DseError

SHARES = {  # of the makespan, with titles
    "subsystem": "subsystem",
    "entries": "entries",
    "busy": "busy",
    "throughput": "bound by throughput",
    "latency": "bound by latency",
    "same warp": "of that, same warp",
}
LEAST = 0.0005  # least share that is mentioned


@command(
    "Examples: [bold]dse simulate convolution --gpu a100 --what-if conflicts=off[/bold], "
    "[bold]dse simulate graph.toml --warps 4 --profile profile.svg[/bold], "
    "[bold]dse simulate matmul_abt --teg --what-if conflicts=off[/bold]"
)
def simulate(
    kernel: Annotated[
        str,
        typer.Argument(
            metavar="KERNEL|GRAPH.toml|TRACE.sass",
            help="A kernel of `dse kernels`, a kernel.toml, or a file with an instruction dependence graph, "
            "or (.sass, .txt) an instruction trace.",
        ),
    ],
    gpu: Annotated[
        str | None,
        typer.Option(
            "--gpu", "-g", metavar="GPU", help="A GPU of `dse gpus`, or a GPU file; not for a graph."
        ),
    ] = None,
    changed: inputs.SetOption = None,
    warps: Annotated[
        int | None,
        typer.Option(min=1, metavar="W", help="Warps resident on the SM; for a graph: in a group."),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Warp scheduler: rr (default), gto or oldest."),
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Order of a warp's instructions: program (default) or dataflow."),
    ] = None,
    groups: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Blocks to simulate in total; default for a kernel: those of one SM, up to 131,072 "
            "instructions.",
        ),
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the timeline: .json for Perfetto; .svg, .png, .html."),
    ] = None,
    window: Annotated[
        tuple[float, float] | None,
        typer.Option(metavar="FROM TO", help="Cycles drawn by --profile."),
    ] = None,
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Simulate this change too: sfu.lambda=1, dram.Lambda=0.5x, issue_limit=4, conflicts=off, "
            "barriers=off, uncoalesced=off, dram=off, blocks=2, scheduler=gto, order=dataflow; for a trace "
            "also issue, same_warp, held, dependence, divergence, in_flight, channels=off; repeatable.",
        ),
    ] = None,
    teg: Annotated[
        bool,
        typer.Option(
            help="Simulate a kernel as TEG does, on a GT200, from its trace or description. Always on for "
            "traces."
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Simulate one configuration on one SM: cycles, IPC, utilization of pipes, bottleneck.

    Parameters without --set are those of the fastest configuration by the default model. The bottleneck is
    read off the critical path: waits for a pipe to accept an instruction (throughput) or for a result
    (latency); all shares add up to the makespan.
    """
    if profile is not None:
        from dse.report.save import CHARTS, suffix_of

        suffix_of(profile, (".json", *CHARTS))
    elif window is not None:
        raise DseError("--window: found without --profile, expected both")
    from dse import api
    from dse.evaluate import simulated
    from dse.evaluate.curve import fastest
    from dse.report.show import progress

    numbers, kind = inputs.settings(changed), simulated.kind(kernel)
    settings = {"scheduler": scheduler, "order": order, "groups": groups, "warps": warps}
    with progress("Simulating"):
        if kind == "kernel":
            files = "trace" if teg else "graph" if gpu is None else None
            if numbers and files and (path := simulated.companion(api.kernel(kernel), files)):
                raise DseError(f"{path}: found --set with a {files}, expected none")
            counts, problem = inputs.kernel(kernel, numbers)
            parameters = fastest(counts, api.gpu(gpu).gpu, problem) if gpu is not None and not teg else None
            if parameters is not None:
                counts = api.kernel(kernel)  # its whole space, for the title
            changes = what_if or ()
            result = api.simulate(counts, gpu, parameters, problem, **settings, what_if=changes, teg=teg)
        elif numbers:
            raise DseError(f"{kernel}: found --set with a {kind}, expected none")
        else:
            result = api.simulate(kernel, gpu, **settings, what_if=what_if or (), teg=teg)
    if profile is not None:
        from dse.report.timeline import save

        entries = result.profile()
        save(entries, profile, window=window, critical=entries.critical, **result.caption)
    gains = result.what_if
    from dse.report.conclusion import conclude, print_words, quantity
    from dse.report.numbers import json_text
    from dse.report.show import show

    time = f", {quantity(result.makespan * result.cycle_s)}" if result.cycle_s else ""
    finding = f"{result.makespan:,.6g} cycles{time} at {result.ipc or 0:.3g} instructions a cycle"
    finding += f"; bound by {result.bottleneck}"
    finding += f", the issue limit {result.shares.issue:.1%}" if result.shares.issue > LEAST else ""
    best = max(gains, key=lambda row: row["gain"] or 0, default=None)
    if best and best["gain"]:
        faster = f"{best['gain']:.2f} times as fast" if best["gain"] > 1.005 else "no faster"
        finding += f"; {best['what if']} makes it {faster}"
    if json:
        print(json_text(result.summary() | {"conclusion": finding}))
        return
    print_words(result.title)
    percent = tuple(SHARES)[2:]
    rows = result.rows()
    show([
        {title: f"{row[name] or 0:.1%}" if name in percent else row[name] for name, title in SHARES.items()}
        for row in rows
    ])  # fmt: skip
    if gains:
        shown = [row | {"gain": f"{row['gain']:.3f}x" if row["makespan"] else "-"} for row in gains]
        show(shown, title="What if")
    then = "" if gains else "--what-if NAME=VALUE shows what a change would gain"
    conclude(finding, wrote=profile, then=then)

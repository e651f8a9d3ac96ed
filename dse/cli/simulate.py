"""`dse simulate`: one configuration, a graph or a trace, instruction by instruction, and what binds it."""

import json as json_module
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dse.cli import inputs
from dse.cli.options import JsonOption, present
from dse.core.files import given_path, is_file
from dse.errors import DseError, one_of

if TYPE_CHECKING:
    from dse.kernels.description import Number
    from dse.simulator import Case
    from dse.simulator.case.graph_file import Graph
    from dse.simulator.case.trace import Trace

TEG_CAPABILITY = "1.3"  # compute capability of the GPU that TEG models
TRACES = (".sass", ".txt")
CHANGES = ("issue_limit", "warps", "slots", "groups", "scheduler", "order")  # of a graph or trace

app = typer.Typer(rich_markup_mode="rich")


@app.command(
    epilog="Examples: [bold]dse simulate convolution --gpu a100 --what-if conflicts=off[/bold], "
    "[bold]dse simulate graph.toml --warps 4 --profile profile.svg[/bold], "
    "[bold]dse simulate matmul_abt --teg --what-if conflicts=off[/bold]"
)
def simulate(
    kernel: Annotated[
        str,
        typer.Argument(
            metavar="KERNEL|GRAPH.toml|TRACE.sass",
            help="A kernel of `dse kernels`, a kernel.toml, or a file with an instruction dependence graph, "
            "or a .sass or .txt file with an instruction trace.",
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
        int | None, typer.Option(min=1, metavar="W", help="Warps resident on the SM; of a graph: in a group.")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Which ready warp goes first: rr (default), gto or oldest."),
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="A warp's instructions in program order (default) or dataflow order."
        ),
    ] = None,
    groups: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Blocks to simulate in all; of a kernel by default as many as one SM runs, "
            "up to 131,072 instructions.",
        ),
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write every entry: .json for Perfetto; .svg, .png, .html drawn."),
    ] = None,
    window: Annotated[
        tuple[float, float] | None,
        typer.Option(metavar="FROM TO", help="Cycles that the drawing of --profile shows."),
    ] = None,
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Simulate this change too: sfu.lambda=1, dram.Lambda=0.5x, issue_limit=4, conflicts=off, "
            "barriers=off, uncoalesced=off, dram=off, blocks=2, scheduler=gto, order=dataflow; of a trace "
            "also issue, same_warp, held, dependence, divergence, in_flight, channels=off; repeatable.",
        ),
    ] = None,
    teg: Annotated[
        bool,
        typer.Option(
            help="Simulate a kernel as TEG does, on a GT200: its trace, or one made from its description. "
            "A trace always is."
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Simulate one configuration on one SM: cycles, IPC, how busy each pipe is, and what binds.

    Parameters of a kernel that are not --set are those of the configuration that the default model puts
    first. What binds is read off the critical path: time in which something waited for a pipe to accept it
    (throughput) or for a result (latency); all shares add up to the makespan.
    """
    if profile is not None:
        from dse.report.save import CHARTS, suffix_of

        suffix_of(profile, (".json", *CHARTS))
    elif window is not None:
        raise DseError("--window: found without --profile, expected both")
    changes = list(what_if or ())
    asked = {"warps": warps, "scheduler": scheduler, "order": order, "groups": groups}
    asked = {name: value for name, value in asked.items() if value is not None}
    trace = _trace(kernel, gpu, inputs.settings(changed), teg)
    path = None if trace else _graph_file(kernel, gpu)
    if trace is not None:
        cases = _of_trace(trace, asked, changes)
    elif path is None:
        cases = _of_kernel(kernel, gpu, inputs.settings(changed), asked, changes)
    else:
        if gpu is not None or changed:
            raise DseError(f"{path}: found --{'gpu' if gpu else 'set'} with a graph, expected none")
        cases = _of_graph(path, asked, changes)
    from dse.simulator import simulate as run
    from dse.simulator.result.shares import shares

    graph = cases.graph
    result = run([graph.case, *cases.variants], critical=True)  # together: one compilation serves all
    bound, busy = shares(result, 0), result.busy(0)
    makespan = float(result.makespan[0])
    ipc = cases.instructions / makespan if makespan else None
    entries = graph.case.entries_of_subsystems()
    rows = [
        {
            "subsystem": name,
            "entries": int(entries[s]),
            "busy": float(busy[s]) if makespan else None,
            "throughput": float(bound.throughput[s]),
            "latency": float(bound.latency[s]),
            "same warp": float(bound.same_warp[s]),
        }
        for s, name in enumerate(graph.subsystems[: len(entries)])  # a case has none behind its last
        if entries[s]
    ]
    gains = [
        {"what if": text, "makespan": float(cycles), "gain": makespan / float(cycles) if cycles else None}
        for text, cycles in zip(changes, result.makespan[1:], strict=True)
    ]
    number, kind = bound.bottleneck
    bottleneck = f"{graph.subsystems[number]} {kind}" if number >= 0 else kind
    if profile is not None:
        from dse.report.timeline import save
        from dse.simulator.result.profile import profile as entries_of

        entered = entries_of(graph.case, graph.subsystems, graph.labels)
        told = {"title": cases.title, "cycle_s": cases.cycle_s}
        save(entered, profile, window=window, critical=entered.critical, **told)
        if not json:
            print(f"{profile}: {len(entered.time):,} entries")
    if json:
        whole = cases.facts | {
            "makespan_cycles": makespan,
            "entries": int(result.entries[0]),
            "ipc": ipc,
            "in_ticks": bool(result.in_ticks[0]),
            "bottleneck": bottleneck,
            "issue_share": bound.issue,
            "subsystems": rows,
            "what_if": gains,
        }
        print(json_module.dumps(whole, indent=2))
        return
    print(cases.title)
    print(f"{makespan:,.6g} cycles, {ipc or 0:.3g} instructions a cycle, bound by {bottleneck}")
    if bound.issue:
        print(f"the issue limit binds {bound.issue:.1%}")
    shown = [
        row | {name: f"{row[name] or 0:.1%}" for name in ("busy", "throughput", "latency", "same warp")}
        for row in rows
    ]
    present(shown, json=False, csv=False, out=None)
    if gains:
        present(
            [row | {"gain": f"{row['gain']:.3f}x" if row["makespan"] else "-"} for row in gains],
            title="What if",
            json=False,
            csv=False,
            out=None,
        )


@dataclass(frozen=True)
class _Cases:
    """The graph to simulate, its variants, and how they are shown."""

    graph: "Graph"
    variants: list["Case"]  # with one change each
    instructions: float  # that all warps execute
    title: str
    facts: dict[str, Any]
    cycle_s: float | None = None  # of the GPU's clock


def _graph_file(name: str, gpu: str | None) -> Path | None:
    """Find the file of a graph: a path to one, or that of a kernel for which no GPU is named."""
    from dse import kernels

    path = given_path(name)
    if path.suffix == ".toml" and is_file(path) and path.name != kernels.FILE:
        return path
    if gpu is None:
        beside = kernels.find(name).with_name("graph.toml")
        if beside.is_file():
            return beside
        raise DseError("--gpu: found none, expected a GPU of `dse gpus` or a GPU file")
    return None


def _trace(name: str, gpu: str | None, changed: Mapping[str, "Number"], teg: bool) -> "Trace | None":
    """Read a trace from its file, that of a kernel, or make one by its description; None if none is meant."""
    path = given_path(name)
    is_trace = path.suffix in TRACES and is_file(path)
    if not (teg or is_trace):
        return None
    from dse import kernels
    from dse.hardware import gpus
    from dse.simulator.case import trace_text

    file = gpus.load(gpu or "gtx-280")
    if file.header.compute_capability != TEG_CAPABILITY:
        expected = f"gtx-280 or another GPU of compute capability {TEG_CAPABILITY}"
        raise DseError(f"--gpu: found {file.name} with TEG, expected {expected}")
    if not is_trace and is_file(path) and path.name != kernels.FILE:
        raise DseError(f"{path}: found --teg with a graph, expected a trace or a kernel")
    path = path if is_trace else kernels.find(name).with_name(trace_text.FILE)
    if path.is_file():
        if changed:
            raise DseError(f"{path}: found --set with a trace, expected none")
        return trace_text.load(path)
    from dse.evaluate.curve import fastest, laid_out
    from dse.simulator.case.kernel_trace import listing

    description, problem = inputs.kernel(name, changed)
    kernel, launch = laid_out(description, file.gpu, fastest(description, file.gpu, problem), problem)
    return trace_text.parse(listing(description.name, file.gpu, kernel, int(launch.warps_per_block)))


def _of_trace(trace: "Trace", asked: Mapping[str, Any], changes: Sequence[str]) -> _Cases:
    """Prepare warps of a trace on an SM of a GT200 (a block if not said), and the same with a change each."""
    from dse.evaluate.whatif import of_graph, split
    from dse.simulator.case.graph_file import Graph
    from dse.simulator.teg import GT200, NAMES, SUBSYSTEMS, Effects, case

    inputs.simulated({name: value for name, value in asked.items() if name != "warps"})
    if asked.get("order", "program") != "program":
        raise DseError(f"--order: found {asked['order']!r} with TEG, expected program")

    def made(effects: Effects | None = None) -> "Case":
        scheduler, groups = asked.get("scheduler", "rr"), asked.get("groups")
        return case(trace, asked.get("warps", trace.block or 1), GT200, effects, scheduler, groups)

    simulated, variants = made(), []
    for text in changes:
        name, value = split(text)
        if name in NAMES and value != "off":
            raise DseError(f"--what-if: {text}: found {value!r}, expected off")
        if name not in NAMES and "." not in name and name not in CHANGES:
            raise DseError(f"--what-if: {text}: found {name!r}, {one_of(name, (*NAMES, *CHANGES))}")
        off = name in NAMES
        variants.append(made(Effects.without(name)) if off else of_graph(simulated, SUBSYSTEMS, text))
    graph = Graph(
        trace.name, simulated, SUBSYSTEMS, (tuple(instruction.text for instruction in trace.instructions),)
    )
    facts = {"warps": simulated.warps, "slots": simulated.slots, "groups": simulated.groups}
    title = f"{trace.name} on a GT200: " + ", ".join(f"{name}={value}" for name, value in facts.items())
    facts = {"name": trace.name} | facts
    return _Cases(graph, variants, simulated.entries, title, facts)


def _of_graph(path: Path, asked: Mapping[str, Any], changes: Sequence[str]) -> _Cases:
    from dse.evaluate.whatif import of_graph
    from dse.simulator.case.graph_file import load

    graph = load(path)
    try:
        case = replace(graph.case, **asked)
    except DseError as error:
        raise DseError(f"{path}: {error}") from None
    variants = [of_graph(case, graph.subsystems, text) for text in changes]
    title = f"{graph.name}: warps={case.warps}, slots={case.slots}, groups={case.groups}"
    facts = {"name": graph.name, "warps": case.warps, "slots": case.slots, "groups": case.groups}
    return _Cases(replace(graph, case=case), variants, case.entries, title, facts)


def _of_kernel(
    name: str,
    gpu: str | None,
    changed: Mapping[str, "Number"],
    asked: Mapping[str, Any],
    changes: Sequence[str],
) -> _Cases:
    """Prepare a configuration of a kernel on a GPU, and the same with one change each."""
    description, problem = inputs.kernel(name, changed)
    [file] = inputs.gpus([gpu or ""])
    settings = inputs.simulated({key: value for key, value in asked.items() if key != "warps"})
    from dse.evaluate.curve import fastest, laid_out
    from dse.evaluate.whatif import Setup, of_kernel
    from dse.simulator.case import idg
    from dse.simulator.case.graph_file import Graph
    from dse.simulator.on_host import average_warp
    from dse.simulator.pipeline import one

    parameters = fastest(description, file.gpu, problem)
    kernel, launch = laid_out(description, file.gpu, parameters, problem)
    setup = Setup(file.gpu, kernel, launch, settings)
    if "warps" in asked:
        block, most = int(launch.warps_per_block), int(file.gpu.limits.warps_per_sm)
        if asked["warps"] % block or asked["warps"] > most:
            expected = f"a multiple of a block's {block} warps, at most {most}"
            raise DseError(f"--warps: found {asked['warps']}, expected {expected}")
        setup = of_kernel(setup, f"blocks={asked['warps'] // block}")

    def made(setup: Setup, text: str = "") -> tuple["Case", tuple[str, ...]]:
        try:
            return one(average_warp(setup.gpu, setup.kernel), setup.launch, setup.settings)
        except DseError as error:
            raise DseError(f"--what-if: {text}: {error}" if text else str(error)) from None

    case, labels = made(setup)
    # All simulate the same blocks, so that their makespans compare.
    setup = replace(setup, settings=replace(settings, groups=case.groups))
    graph = Graph(description.name, case, idg.pipes(average_warp(setup.gpu, setup.kernel)), (labels,))
    blocks = round(float(launch.resident_blocks * launch.waves))
    title = f"{description.name} on {file.name}: {inputs.in_words(name, parameters)}\n"
    title += (
        f"{case.groups:,} of {blocks:,} blocks of an SM, resident={case.slots}, warps_per_block={case.warps}"
    )
    facts = {"kernel": description.name, "gpu": file.name, "parameters": parameters}
    facts |= {"warps": case.warps, "slots": case.slots, "groups": case.groups, "blocks": blocks}
    variants = [made(of_kernel(setup, text), text)[0] for text in changes]
    instructions = float(kernel.insts) * case.warps * case.groups
    return _Cases(graph, variants, instructions, title, facts, 1 / float(file.gpu.clock))

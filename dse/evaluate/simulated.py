"""Simulate a configuration, graph or trace, and what-if variants with one change each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from dse import kernels
from dse.core.files import given_path, is_file
from dse.data.tables import Result
from dse.errors import DseError, check_names, one_of
from dse.evaluate import whatif
from dse.evaluate.curve import fastest, place_launch
from dse.hardware.gpus import GpuFile
from dse.kernels.counts import Counts, Number
from dse.simulator import Case, Simulation, simulate
from dse.simulator.case import graph_file, idg, kernel_trace, trace_text
from dse.simulator.case.graph_file import NamedCase
from dse.simulator.case.program import ORDERS, SCHEDULERS
from dse.simulator.case.trace import Trace
from dse.simulator.on_host import average_warp
from dse.simulator.pipeline import Settings, one
from dse.simulator.result.profile import Profile, profile
from dse.simulator.result.shares import PathShares, shares
from dse.simulator.teg import GT200, NAMES, SUBSYSTEMS, Effects
from dse.simulator.teg import case as teg_case

TEG_CAPABILITY = "1.3"  # compute capability of the GPU that TEG models
TRACES = (".sass", ".txt")
CHANGES = ("issue_limit", "warps", "slots", "groups", "scheduler", "order")  # to a graph or trace


@dataclass(frozen=True, repr=False)
class Simulated(Result):
    """A simulation with its critical path, and the makespans of its variants: a row for each subsystem."""

    graph: NamedCase
    changes: tuple[str, ...]
    simulation: Simulation  # of the graph, then of each change
    instructions: float  # of all warps
    title: str
    facts: dict[str, Any] = field(repr=False)  # name, GPU, parameters, and number of simulated warps
    cycle_s: float | None = None  # of the GPU's clock

    @property
    def makespan(self) -> float:
        """Cycles from the first entry to the last result."""
        return float(self.simulation.makespan[0])

    @property
    def ipc(self) -> float | None:
        """Instructions a cycle; None without cycles."""
        return self.instructions / self.makespan if self.makespan else None

    @cached_property
    def shares(self) -> PathShares:
        """Shares of the makespan, by what binds on the critical path."""
        return shares(self.simulation, 0)

    @property
    def bottleneck(self) -> str:
        """The largest share: a subsystem and `throughput` or `latency`, or the issue limit."""
        number, kind = self.shares.bottleneck
        return f"{self.graph.subsystems[number]} {kind}" if number >= 0 else kind

    @property
    def what_if(self) -> list[dict[str, Any]]:
        """A row for each change: its makespan in cycles, and the speedup."""
        return [
            {"what if": text, "makespan": cycles, "gain": self.makespan / cycles if cycles else None}
            for text, cycles in zip(self.changes, self.simulation.makespan[1:].tolist(), strict=True)
        ]

    def rows(self, top: int | None = None) -> list[dict[str, Any]]:
        """Return a row for each subsystem with entries: its utilization and its shares."""
        busy, bound, entries = self.simulation.busy(0), self.shares, self.graph.case.entries_of_subsystems()
        rows = [
            {
                "subsystem": name,
                "entries": int(entries[s]),
                "busy": float(busy[s]) if self.makespan else None,
                "throughput": float(bound.throughput[s]),
                "latency": float(bound.latency[s]),
                "same warp": float(bound.same_warp[s]),
            }
            for s, name in enumerate(self.graph.subsystems[: len(entries)])  # a case ends with its last one
            if entries[s]
        ]
        return rows[:top]

    def summary(self) -> dict[str, Any]:
        """Return everything as one JSON object."""
        return self.facts | {
            "makespan_cycles": self.makespan,
            "entries": int(self.simulation.entries[0]),
            "ipc": self.ipc,
            "in_ticks": bool(self.simulation.in_ticks[0]),
            "bottleneck": self.bottleneck,
            "issue_share": self.shares.issue,
            "subsystems": self.rows(),
            "what_if": self.what_if,
        }

    @property
    def caption(self) -> dict[str, Any]:
        """Arguments of its timeline: the title, and the seconds of a cycle."""
        return {"title": self.title, "cycle_s": self.cycle_s}

    def profile(self) -> Profile:
        """Return all entries with their times and whether they are on the critical path."""
        return profile(self.graph.case, self.graph.subsystems, self.graph.labels)


def kind(name: str | Path) -> str:
    """Return `trace` or `graph` for the path of such a file, else `kernel`.

    **Raises:** DseError for an impossible path.
    """
    path = given_path(str(name))
    if path.suffix in TRACES and is_file(path):
        return "trace"
    return "graph" if path.suffix == ".toml" and is_file(path) and path.name != kernels.FILE else "kernel"


def companion(kernel: Counts, kind: str) -> Path | None:
    """Return the trace or graph in a kernel's folder, if any."""
    path = kernel.path.with_name({"trace": trace_text.FILE, "graph": "graph.toml"}[kind])
    return path if path.is_file() else None


def trace_of(kernel: Counts, file: GpuFile, problem: Mapping[str, Number]) -> Trace:
    """Return the trace in a kernel's folder, else a trace of its fastest configuration by its description.

    **Raises:** DseError for a GPU that TEG does not model.
    """
    if file.header.compute_capability != TEG_CAPABILITY:
        expected = f"gtx-280 or another GPU of compute capability {TEG_CAPABILITY}"
        raise DseError(f"gpu: found {file.name} with TEG, expected {expected}")
    if path := companion(kernel, "trace"):
        return trace_text.load(path)
    counts, launch = place_launch(kernel, file.gpu, fastest(kernel, file.gpu, problem), problem)
    text = kernel_trace.listing(kernel.name, file.gpu, counts, int(launch.warps_per_block))
    return trace_text.parse(text)


def of_trace(trace: Trace, settings: Mapping[str, Any], changes: Sequence[str] = ()) -> Simulated:
    """Simulate a trace on an SM of a GT200 as TEG does, by default with the warps of one block.

    `settings` may have warps, scheduler and groups. **Raises:** DseError for one or a change that TEG lacks.
    """
    check(settings)
    if settings.get("order", "program") != "program":
        raise DseError(f"order: found {settings['order']!r} with TEG, expected program")
    scheduler, groups = settings.get("scheduler", "rr"), settings.get("groups")

    def made(effects: Effects | None = None) -> Case:
        return teg_case(trace, settings.get("warps", trace.block or 1), GT200, effects, scheduler, groups)

    case, variants = made(), []
    for text in changes:
        name, value = whatif.split(text)
        if name in NAMES and value != "off":
            raise DseError(f"what_if: {text}: found {value!r}, expected off")
        if name not in NAMES and "." not in name and name not in CHANGES:
            raise DseError(f"what_if: {text}: found {name!r}, {one_of(name, (*NAMES, *CHANGES))}")
        off = name in NAMES
        variants.append(made(Effects.without(name)) if off else whatif.of_graph(case, SUBSYSTEMS, text))
    texts = tuple(instruction.text for instruction in trace.instructions)
    facts = _shape(case)
    title = f"{trace.name} on a GT200: " + ", ".join(f"{name}={value}" for name, value in facts.items())
    graph = NamedCase(trace.name, case, SUBSYSTEMS, (texts,))
    return _run(graph, variants, changes, case.entries, title, {"name": trace.name} | facts)


def of_graph(path: Path, settings: Mapping[str, Any], changes: Sequence[str] = ()) -> Simulated:
    """Simulate a graph from its file, with changed `settings`. **Raises:** DseError for an invalid one."""
    graph = graph_file.load(path)
    try:
        case = replace(graph.case, **settings)
    except DseError as error:
        raise DseError(f"{path}: {error}") from None
    variants = [whatif.of_graph(case, graph.subsystems, text) for text in changes]
    facts = _shape(case)
    title = f"{graph.name}: " + ", ".join(f"{name}={value}" for name, value in facts.items())
    graph = replace(graph, case=case)
    return _run(graph, variants, changes, case.entries, title, {"name": graph.name} | facts)


def of_kernel(
    kernel: Counts,
    file: GpuFile,
    parameters: Mapping[str, Number],
    problem: Mapping[str, Number],
    settings: Mapping[str, Any],
    changes: Sequence[str] = (),
) -> Simulated:
    """Simulate a configuration of a kernel on a GPU; `settings` may have warps, scheduler, order and groups.

    **Raises:** DseError if it cannot be launched, or for an invalid setting or change.
    """
    pipeline = check(settings)
    counts, launch = place_launch(kernel, file.gpu, parameters, problem)
    setup = whatif.Setup(file.gpu, counts, launch, pipeline)
    if "warps" in settings:
        block, most = int(launch.warps_per_block), int(file.gpu.limits.warps_per_sm)
        if settings["warps"] % block or settings["warps"] > most:
            expected = f"a multiple of a block's {block} warps, at most {most}"
            raise DseError(f"warps: found {settings['warps']}, expected {expected}")
        setup = whatif.of_kernel(setup, f"blocks={settings['warps'] // block}")

    def made(setup: whatif.Setup, text: str = "") -> tuple[Case, tuple[str, ...]]:
        try:
            return one(average_warp(setup.gpu, setup.kernel), setup.launch, setup.settings)
        except DseError as error:
            raise DseError(f"what_if: {text}: {error}" if text else str(error)) from None

    case, labels = made(setup)
    # Variants simulate the same blocks, so that makespans are comparable.
    setup = replace(setup, settings=replace(pipeline, groups=case.groups))
    graph = NamedCase(kernel.name, case, idg.pipes(average_warp(setup.gpu, setup.kernel)), (labels,))
    blocks = round(float(launch.resident_blocks * launch.waves))
    choices = kernel.space.values
    stated = ", ".join(f"{key}={value}" for key, value in parameters.items() if len(choices[key]) > 1)
    title = f"{kernel.name} on {file.name}: {stated}\n"
    title += (
        f"{case.groups:,} of {blocks:,} blocks of an SM, resident={case.slots}, warps_per_block={case.warps}"
    )
    facts = {"kernel": kernel.name, "gpu": file.name, "parameters": dict(parameters)}
    facts |= _shape(case) | {"blocks": blocks}
    variants = [made(whatif.of_kernel(setup, text), text)[0] for text in changes]
    instructions = float(counts.insts) * case.warps * case.groups
    return _run(graph, variants, changes, instructions, title, facts, 1 / float(file.gpu.clock))


def check(settings: Mapping[str, Any]) -> Settings:
    """Return the simulator's settings. **Raises:** DseError for an unknown scheduler or order."""
    for name, allowed in (("scheduler", SCHEDULERS), ("order", ORDERS)):
        check_names(name, allowed, settings.get(name, allowed[0]))
    return Settings(**{name: value for name, value in settings.items() if name != "warps"})


def _run(graph: NamedCase, variants: Sequence[Case], changes: Sequence[str], *rest: Any) -> Simulated:
    run = simulate([graph.case, *variants], critical=True)  # together: one compilation serves all
    return Simulated(graph, tuple(changes), run, *rest)


def _shape(case: Case) -> dict[str, int]:
    return {"warps": case.warps, "slots": case.slots, "groups": case.groups}

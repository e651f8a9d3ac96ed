"""Explain the costs of one configuration: tables of plain rows, or a graph for the simulator."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any

from dse.errors import DseError
from dse.hardware import occupancy
from dse.hardware.gpus import GpuFile
from dse.kernels.description import Description, Number
from dse.source.contract import Failure, Source
from dse.source.kernel import warn_of_counts
from dse.source.launches import Configuration, check_blocks, configurations
from dse.source.machine.blocks import Sample
from dse.source.machine.recorded import PIPES
from dse.source.nvidia.compile.contract import Compiled
from dse.source.nvidia.graphs import graph_text
from dse.source.nvidia.graphs.branches import branches
from dse.source.nvidia.graphs.dependence import DependenceGraph, dependence_graph
from dse.source.nvidia.machine.state import Machine
from dse.source.nvidia.profiled import completed, counted, refused, resources, run_launch
from dse.source.nvidia.sass.disassemble import with_lines
from dse.source.nvidia.source import architecture, source_of
from dse.source.profile import explain
from dse.source.profile.average_warp import warp_counts
from dse.source.profile.characterise import Characterisation
from dse.source.profile.single_warp import longest_warp
from dse.source.warps import to_kernel

Row = dict[str, Any]
_WITH_TEXT = (".cu", ".hip", ".py")  # files whose lines are shown


@dataclass(frozen=True)
class Executed:
    """One configuration, compiled with source lines and executed."""

    parameters: Mapping[str, Number]
    gpu: GpuFile
    source: Source
    configuration: Configuration
    made: Compiled
    sample: Sample
    machine: Machine
    counts: Characterisation


def execute(
    description: Description, parameters: Mapping[str, Number], problem: Mapping[str, Number], gpu: GpuFile
) -> Executed:
    """Compile and run the configuration of these parameters.

    **Raises:** DseError if it cannot be compiled or executed.
    """
    source = source_of(description)
    configuration = configured(description, parameters, problem, gpu)
    settings = source.settings(configuration.defines, configuration.arguments)
    made = source.compile(architecture(gpu.gpu, source), settings)
    if isinstance(made, Failure):
        raise failed(description, made, parameters)
    if why := refused(made, configuration):
        raise DseError(why)
    listing = made.listing or with_lines(made.cubin, made.binary.kernel, source.path)
    profile, configuration = completed(made, listing, configuration, source, gpu.gpu)
    warn_of_counts(description.name, [profile])
    machine, sample = run_launch(made, listing, configuration)
    counts = counted(machine, sample, made, configuration, gpu.gpu)
    return Executed(parameters, gpu, source, configuration, made, sample, machine, counts)


def configured(
    description: Description, parameters: Mapping[str, Number], problem: Mapping[str, Number], gpu: GpuFile
) -> Configuration:
    """Return the macros and launch of one configuration.

    **Raises:** DseError if its blocks are too large.
    """
    [configuration] = configurations(description, parameters, problem, gpu.gpu)
    check_blocks(description.name, [configuration], gpu.gpu)
    return configuration


def failed(description: Description, failure: Failure, parameters: Mapping[str, Number]) -> DseError:
    """Return an error of one line with the reason why a configuration has no counts."""
    at = ", ".join(f"{name}={value}" for name, value in parameters.items())
    return DseError(
        f"{description.name}: {failure.reason}: {failure.message}" + (f" (at {at})" if at else "")
    )


def write_graph(path: Path, ran: Executed) -> DependenceGraph:
    """Write the instructions of the longest warp of the typical block, with the GPU's own values."""
    gpu, block = ran.gpu.gpu, ran.sample.typical
    dependences = dependence_graph(
        ran.machine, block, longest_warp(ran.machine, ran.machine.program.blocks, block)
    )
    kernel = to_kernel(warp_counts(ran.counts))
    resident = int(occupancy.launch(gpu, resources(ran.made, ran.configuration))[0].resident_blocks)
    hits = graph_text.Hits.of(kernel)
    graph = graph_text.of_source(dependences, gpu, hits, warps=ran.counts.warps, slots=resident)
    graph_text.write_graph(path, graph, summary=f"{dependences.kernel} on {ran.gpu.name}, its longest warp")
    return dependences


def explained(ran: Executed) -> dict[str, Any]:
    """Explain a run, part by part: texts, values by name, and tables of the average warp as lists of rows."""
    configuration, made = ran.configuration, ran.made
    return {
        "kernel": made.binary.kernel,
        "gpu": ran.gpu.name,
        "compiler": made.compiler,
        "configuration": dict(ran.parameters),
        "resources": {
            "threads": prod(configuration.block),
            "blocks": prod(configuration.grid),
            "registers": made.binary.registers,
            "shared_bytes": made.binary.shared_bytes + (configuration.shared_bytes or 0),
            "stack_bytes": made.binary.stack_bytes,
            "spill_bytes": made.spill_bytes,
        },
        **tables(ran, list(_branches(ran))),
    }


def tables(ran: Any, branches: Sequence[Row] = ()) -> dict[str, Any]:
    """Return the counts of a run, on a GPU of either vendor, as lists of rows."""
    return {
        "mix": _mix(ran.counts),
        "phases": [{"phase": number} | phase for number, phase in enumerate(phases(ran.counts), 1)],
        "accesses": list(_accesses(ran)),
        "branches": list(branches),
        "lines": list(_lines(ran)),
        "unknown": list(_unknown(ran.counts)),
    }


def _mix(counts: Characterisation) -> list[Row]:
    warps, insts = counts.warps, counts.insts()
    mix = [
        {"pipe": pipe, "insts": counts.insts(pipe) / warps, "share": counts.insts(pipe) / insts}
        for pipe in PIPES
        if counts.insts(pipe)
    ]
    return sorted(mix, key=lambda row: -row["insts"])


def phases(counts: Characterisation) -> list[dict[str, float]]:
    """Describe one pass of the average warp through each phase: a row per phase."""
    rows = []
    for phase in counts.phases:
        row = {"passes": phase.passes, "lanes_active": phase.active}
        row |= {pipe: number / counts.warps for pipe, number in phase.insts.items()}
        for kind, access in phase.accesses.items():
            row[f"{kind}: requests"] = access.requests / counts.warps
            if not kind.startswith("shared"):
                row[f"{kind}: sectors"] = access.sectors / counts.warps
            row[f"{kind}: passes"] = access.passes / counts.warps
        for way, sectors in phase.new_sectors.items():
            if sectors:
                row[f"global {way}: new sectors"] = sectors / counts.warps
        if phase.traffic is not None:
            for name, sectors in asdict(phase.traffic).items():
                if "past" in name:  # the others are listed with the accesses
                    row[name] = sectors / counts.warps
        rows.append(row)
    return rows


def _accesses(ran: Any) -> Iterable[Row]:
    for access in explain.accesses(ran.machine, ran.sample):
        of_warp = {"requests": access.requests / ran.counts.warps, "degree": access.degree}
        yield asdict(access) | {"address": hex(access.address)} | of_warp


def _branches(ran: Executed) -> Iterable[Row]:
    for branch in branches(ran.machine, ran.sample.weights):
        yield {
            "line": branch.line,
            "address": hex(branch.address),
            "instruction": branch.text,
            "warps": branch.visits,
            "lanes_active": branch.active,
            "taken": branch.jumping,
            "diverged": branch.diverged,
        }


def _lines(ran: Any) -> Iterable[Row]:
    text = ran.source.text.splitlines() if Path(ran.source.path).suffix in _WITH_TEXT else []
    warps, insts = ran.counts.warps, ran.counts.insts()
    for line in explain.lines(ran.machine, ran.sample, ran.counts.warp_size):
        if line.line is None:
            continue
        pipes = sorted(line.pipes.items(), key=lambda pair: -pair[1])
        yield {
            "line": line.line,
            "insts": line.insts / warps,
            "share": line.insts / insts,
            "lanes_active": line.active,
            "sectors": line.sectors / warps,
            "passes": line.passes / warps,
            "pipes": ", ".join(f"{pipe} {number / warps:.4g}" for pipe, number in pipes),
            "source": text[line.line - 1].strip() if 0 < line.line <= len(text) else "",
        }


def _unknown(counts: Characterisation) -> Iterable[Row]:
    for decision in counts.unknown:
        yield {
            "line": decision.line,
            "address": hex(decision.address),
            "instruction": decision.instruction,
            "what": decision.what,
            "depends_on": ", ".join(decision.depends_on),
        }

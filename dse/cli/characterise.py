"""`dse characterise`: counts what a kernel's CUDA source makes a warp do, by executing its machine code."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dse.cli import inputs
from dse.cli.options import Output, grouped
from dse.errors import DseError

if TYPE_CHECKING:
    from dse.hardware.gpus import GpuFile
    from dse.kernels.description import Description
    from dse.source.contract import Failure
    from dse.source.profiles import KernelProfile
    from dse.types import Kernel, Resources

app = typer.Typer(rich_markup_mode="rich")

Row = dict[str, Any]  # part, name, value by the source, value by the description

_WARP = ("fp32", "fp64", "int32", "imul32", "sfu", "barrier")
_GLOBAL = ("load_insts", "store_insts", "uncoal_insts", "sectors", "l1", "l2", "dram")
_SHARED = ("shared_insts", "shared")
_HOTTEST = 20  # lines of the source that a table shows
_TABLES = (".parquet", ".csv", ".json")


@app.command(
    epilog="Example: [bold]dse characterise transpose --gpu a100-pcie-40gb --set tile=64[/bold]; "
    "[bold]dse characterise T1.json -g a100-pcie-40gb --all --out counts.parquet[/bold]; "
    "[bold]dse characterise saxpy.cu -g a100-pcie-40gb --block 256 --grid 4096 --arg n=1048576 "
    "--explain[/bold]"
)
@grouped
def characterise(
    kernel: inputs.SourceArgument,
    gpu: inputs.GpuOption,
    *,
    changed: inputs.SetOption = None,
    launch: inputs.LaunchOptions,
    every: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Every valid configuration, one a row. Results are kept: interrupted, it continues "
            "where it stopped when it is started again.",
        ),
    ] = False,
    sample: inputs.SampleOption = None,
    seed: Annotated[int, typer.Option(min=0, max=inputs.MOST_SEED, help="Of --sample.")] = 0,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Where it spends what: pipes, phases, memory instructions, branches, lines of the source.",
        ),
    ] = False,
    graph: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="FILE.svg, or - for text alone: the work flow graph of the average warp, with weights and "
            "waits. FILE.toml: the instructions of one warp, loops rolled, for `dse simulate FILE.toml`.",
        ),
    ] = None,
    output: Output,
) -> None:
    """Count what a kernel's source does, without a GPU.

    KERNEL is one of `dse kernels` or a kernel.toml, whose description is then shown beside; or a T1.json; or
    a .cu, .hip, .ptx or .cubin file or a listing of machine code (.sass), of which --block, --grid and --arg
    say one launch.

    The first valid configuration is taken of those that have the parameters set. Counts are of one average
    warp: instructions, sectors, passes. Those of a phase, from a barrier to the next, are of one pass.
    """
    _check(every, sample, "--graph" if graph else "--explain" if explain else "", output)
    if graph is not None and str(graph) != "-" and graph.suffix.lower() not in (".svg", ".toml"):
        raise DseError(f"--graph: found {str(graph)!r}, expected FILE.svg, FILE.toml or -")
    if graph is not None and output.json:
        raise DseError("--json: found it with --graph, expected one of them")
    numbers = inputs.settings(changed)
    description, sizes = inputs.description(kernel, numbers, given=launch.given(numbers))
    [gpu_file] = inputs.gpus([gpu])
    from dse.source.toolchain import toolchain

    tools = toolchain(gpu_file.gpu)
    as_phases = graph is not None and graph.suffix.lower() != ".toml" and description.build is None
    if not as_phases:
        tools.architecture(gpu_file.gpu, tools.source_of(description))  # refuse what no compiler knows first
    if every:
        columns, title = _every(description, sizes, gpu_file, sample, seed)
        _present_all(columns, title, output)
        return
    valid = description.space.configurations(sizes)
    if not all(map(len, valid.values())):
        why = description.space.emptied_by(sizes)
        raise DseError(f"{description.name}: constraints: found no valid configuration ({why}), expected one")
    configuration = {name: values[0].item() for name, values in valid.items()}
    at = ", ".join(f"{name}={value}" for name, value in configuration.items())
    if graph is not None:
        _graph(description, configuration, sizes, gpu_file, graph, at)
        return
    if explain:
        from dse.report.explain import show_explanation

        parts = _explained(description, configuration, sizes, gpu_file)
        if not output.json:
            parts["lines"] = parts["lines"][:_HOTTEST]
        title = f"{description.name} on {gpu_file.name} by {parts['compiler']}" + (f": {at}" if at else "")
        show_explanation(parts, title, output.json)
        pipe = max(parts["mix"], key=lambda row: row["insts"])
        finding = f"most of a warp's instructions go to {pipe['pipe']}: {pipe['share']:.0%}"
        if parts["lines"] and parts["lines"][0]["source"]:
            line = parts["lines"][0]
            finding += f"; line {line['line']} has {line['share']:.0%} of all: {line['source']}"
        output.conclude(finding, then="" if output.json else "dse rank predicts its time")
        return
    table, compiler = _one(description, configuration, sizes, gpu_file)
    title = f"{description.name} on {gpu_file.name} by {compiler}" + (f": {at}" if at else "")
    output.present(table, title=title, section="part")
    sources = {(row["part"], row["name"]): row["source"] for row in table}
    finding = f"a warp executes {sources['all phases', 'instructions']:,.4g} instructions"
    finding += f" and moves {sources['global', 'sectors']:,.4g} sectors of 32 bytes"
    output.conclude(finding, sure=f"counted of the code for {gpu_file.name}", then="--explain shows where")


def _graph(
    description: "Description",
    configuration: Mapping[str, Any],
    sizes: Mapping[str, Any],
    gpu: "GpuFile",
    path: Path,
    at: str,
) -> None:
    """Show the work flow graph, and write it as a picture; or write the instructions of one warp.

    NVIDIA's machine code has a graph of its own; of AMD's, and of a description, the phases are shown.
    """
    from dse.report.conclusion import conclude
    from dse.source import readers
    from dse.source.explain.nvidia import execute, write_graph

    of_amd, of_code = bool(int(gpu.gpu.gfx)), description.build is not None
    if path.suffix.lower() == ".toml":
        if of_amd:
            raise DseError(
                f"--graph: found {str(path)!r} with {gpu.name}, expected an NVIDIA GPU, FILE.svg or -"
            )
        dependences = write_graph(path, execute(description, configuration, sizes, gpu))
        finding = f"{len(dependences.instructions):,} instructions, {len(dependences.loops)} loops"
        conclude(finding, wrote=path, then=f"dse simulate {path}")
        return
    from dse.report.work_flow import show_work_flow
    from dse.source.explain.work_flow import phase_rows, work_flow_rows

    if of_code and not of_amd:
        rows, warp = work_flow_rows(execute(description, configuration, sizes, gpu))
    else:
        counts = readers.counts_of(description, source=of_code)
        rows, warp = phase_rows(counts, configuration, sizes, gpu)
    title = f"{description.name} on {gpu.name}" + (f": {at}" if at else "")
    svg = path if path.suffix else None
    show_work_flow(rows, title, svg)
    finding = f"the average warp takes {float(warp.warp_latency):,.0f} cycles, of which it computes"
    conclude(f"{finding} {float(warp.comp_cycles):,.0f}", sure="by the model wfg", wrote=svg)


def _explained(
    description: "Description", configuration: Mapping[str, Any], sizes: Mapping[str, Any], gpu: "GpuFile"
) -> dict[str, Any]:
    """Explain one configuration on a GPU of either vendor."""
    if int(gpu.gpu.gfx):
        from dse.source.explain import amd

        return amd.explained(description, configuration, sizes, gpu)
    from dse.source.explain.nvidia import execute, explained

    return explained(execute(description, configuration, sizes, gpu))


def _check(every: bool, sample: int | None, alone: str, output: Output) -> None:
    """Refuse options that do not go together, before any work is done. `alone`: has its own output."""
    if sample is not None and not every:
        raise DseError("--sample: found it without --all, expected both")
    if alone and every:
        raise DseError(f"{alone}: found it with --all, expected one configuration")
    out = output.out
    if alone and (output.csv or out is not None):
        raise DseError(f"{'--csv' if output.csv else '--out'}: found it with {alone}, expected one of them")
    if out is not None and (out.suffix.lower() not in _TABLES or not out.parent.is_dir()):
        found = f"no folder {out.parent}" if out.suffix.lower() in _TABLES else f"suffix {out.suffix!r}"
        raise DseError(f"{out}: found {found}, expected a folder that exists and {', '.join(_TABLES)}")


# One configuration


def _one(
    description: "Description",
    configuration: Mapping[str, Any],
    sizes: Mapping[str, Any],
    gpu: "GpuFile",
) -> tuple[list[Row], str]:
    """Return its rows, and the compiler. DseError if it cannot be compiled or executed."""
    from dse.core.precision import in_64_bits
    from dse.kernels.description import describe
    from dse.source.contract import Failure
    from dse.source.explain.nvidia import configured, failed
    from dse.source.kernel import warn_of_blocks
    from dse.source.toolchain import toolchain

    wanted = configured(description, configuration, sizes, gpu)
    tools = toolchain(gpu.gpu)
    source = tools.source_of(description)
    [result] = tools.characterise_all(source, tools.architecture(gpu.gpu, source), [wanted], gpu.gpu)
    if isinstance(result, Failure):
        raise failed(description, result, configuration)
    warn_of_blocks(description.name, [result])
    with in_64_bits():
        kernel, resources = None, None
        if description.described:
            kernel, resources = describe(description, configuration, sizes, gpu.gpu)
        rows = [*_resources(result, resources), *_whole(result.warp, kernel)]
    rows += _details(result)
    if not description.described:
        rows = [{name: value for name, value in row.items() if name != "description"} for row in rows]
    return rows, result.compiler


def _row(part: str, name: str, source: float | None, description: float | None = None) -> Row:
    return {"part": part, "name": name, "source": source, "description": description}


def _resources(profile: "KernelProfile", described: "Resources | None") -> Iterator[Row]:
    ours = {
        "threads": prod(profile.counts.block),
        "blocks": profile.counts.blocks,
        "registers": profile.registers,
        "shared_bytes": profile.shared_bytes,
    }
    for name, value in ours.items():
        yield _row("resources", name, value, None if described is None else int(getattr(described, name)))
    yield _row("resources", "stack_bytes", profile.stack_bytes)
    yield _row("resources", "spill_bytes", profile.spill_bytes)


def _whole(ours: "Kernel", theirs: "Kernel | None") -> Iterator[Row]:
    """Yield rows of the average warp from start to end."""
    import numpy as np

    from dse.types import CLASSES, TENSOR

    def value(kernel: "Kernel", name: str) -> float:
        return float(np.ravel(getattr(kernel.work if name in CLASSES else kernel, name))[0])

    parts = {"warp": _WARP, "global": _GLOBAL, "shared": _SHARED, "parallelism": ("ilp", "mlp")}
    for part, names in parts.items():
        for name in names:
            yield _row(part, name, value(ours, name), None if theirs is None else value(theirs, name))
        if part == "warp":
            for name in TENSOR:
                products = value(ours, name), None if theirs is None else value(theirs, name)
                if any(products):
                    yield _row(part, name, *products)


def _details(profile: "KernelProfile") -> Iterator[Row]:
    """Yield rows of what only the source tells."""
    from dse.source.explain.nvidia import phases

    counts = profile.counts
    yield _row("all phases", "instructions", counts.insts() / counts.warps)
    yield _row("all phases", "blocks executed", counts.sampled)
    yield _row("all phases", "standard error by the choice of blocks", counts.spread)
    if counts.unseen:
        yield _row("all phases", "blocks not proven to be like those executed", counts.unseen)
    for address, loop_counts in counts.estimated.items():
        loop = f"loop at 0x{address:x}: "
        yield _row("all phases", loop + "trips whose sectors and passes are estimated", loop_counts.trips)
        yield _row("all phases", loop + "spread of those of the trips executed", loop_counts.spread)
    unknown = Counter((decision.what, ", ".join(decision.depends_on)) for decision in counts.unknown)
    for (what, depends_on), number in unknown.items():
        yield _row("all phases", f"{what} by data not stated ({depends_on})", number)
    for number_of_phase, phase in enumerate(phases(counts), 1):
        for name, value in phase.items():
            yield _row(f"phase {number_of_phase}", name.replace("_", " "), value)


# Every configuration


def _every(
    description: "Description",
    sizes: Mapping[str, Any],
    gpu: "GpuFile",
    sample: int | None,
    seed: int,
) -> tuple[dict[str, list[Any]], str]:
    """Return columns of one row a configuration, and a title."""
    import numpy as np

    from dse.report.show import progress
    from dse.source.contract import Failure
    from dse.source.explain.nvidia import phases
    from dse.source.kernel import warn_of_blocks
    from dse.source.launches import check_threads, configurations
    from dse.source.toolchain import toolchain

    indices = description.space.indices(sizes)
    if not len(indices):
        why = description.space.emptied_by(sizes)
        raise DseError(f"{description.name}: constraints: found no valid configuration ({why}), expected one")
    count = len(indices)
    if sample is not None and sample < count:
        indices = np.sort(np.random.default_rng(seed).choice(indices, sample, replace=False))
    parameters = {name: np.asarray(values) for name, values in description.space.decode(indices, np).items()}
    wanted = configurations(description, parameters, sizes, gpu.gpu)
    check_threads(description.name, wanted, gpu.gpu)
    tools = toolchain(gpu.gpu)
    source = tools.source_of(description)
    arch = tools.architecture(gpu.gpu, source)
    with progress(f"Reading {description.name}", len(wanted)) as advance:
        results = tools.characterise_all(source, arch, wanted, gpu.gpu, progress=advance)
    warn_of_blocks(description.name, results)
    rows: list[Row] = []
    of_phases: list[list[Row]] = []
    impossible = _cannot_run(results, gpu)
    for index, result in enumerate(results):
        row: Row = {name: values[index].item() for name, values in parameters.items()}
        if isinstance(result, Failure):
            measured: Row = {"status": result.reason, "message": result.message}
        else:
            why = impossible[index]
            measured = {"status": "cannot run" if why else "ok", "message": why} | _flat(result)
        # A parameter keeps its name; what is found under the same one is told apart.
        rows.append(row | {f"found.{name}" if name in row else name: x for name, x in measured.items()})
        of_phases.append([] if isinstance(result, Failure) else phases(result.counts))
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: [row.get(name) for row in rows] for name in names} | _columns_of_phases(of_phases)
    failed = Counter(row["status"] for row in rows if row["status"] != "ok")
    title = f"{description.name} on {gpu.name}: {len(rows):,} of {count:,} configurations"
    if failed:
        title += " (" + ", ".join(f"{number:,}: {reason}" for reason, number in failed.items()) + ")"
    return columns, title


def _columns_of_phases(of_phases: Sequence[Sequence[Row]]) -> dict[str, list[Any]]:
    """Join phase by phase. What a configuration does not do in a phase is 0; in one that it lacks, None."""
    columns: dict[str, list[Any]] = {}
    for number in range(max(map(len, of_phases), default=0)):
        rows = [phases[number] if number < len(phases) else None for phases in of_phases]
        for name in dict.fromkeys(name for row in rows if row for name in row):
            label = f"phase{number + 1}.{name.replace(': ', '.').replace(' ', '_')}"
            columns[label] = [None if row is None else row.get(name, 0.0) for row in rows]
    return columns


def _cannot_run(results: Sequence["KernelProfile | Failure"], gpu: "GpuFile") -> list[str]:
    """Say why each could not be launched on the GPU, "" if it can or was not counted."""
    import numpy as np

    from dse.hardware.occupancy import LIMITERS, possible, resident_blocks
    from dse.source.kernel import stack_profiles

    code = resident_blocks(gpu.gpu.limits, stack_profiles(results)[1])[1]
    codes, fine = np.asarray(code).tolist(), np.asarray(possible(code)).tolist()
    return ["" if good else LIMITERS[limiter] for limiter, good in zip(codes, fine, strict=True)]


def _flat(profile: "KernelProfile") -> Row:
    """Return resources and the average warp, by the names of columns."""
    from dse.source.warps import column_names

    row: Row = {str(fact["name"]): fact["source"] for fact in _resources(profile, None)}
    row["insts"] = profile.counts.insts() / profile.counts.warps
    row |= zip(column_names(0), profile.numbers.tolist(), strict=False)  # those of phases come after
    row["spread"] = profile.counts.spread
    row["estimated_trips"] = sum(loop.trips for loop in profile.counts.estimated.values())
    row["estimated_spread"] = max((loop.spread for loop in profile.counts.estimated.values()), default=0.0)
    row["unknown"] = len(profile.counts.unknown)
    return row


def _present_all(columns: Mapping[str, Sequence[Any]], title: str, output: Output) -> None:
    if output.out is not None:
        from dse.data.tables import write_table

        write_table(output.out, columns)
        output.conclude(title)
        return
    if output.table:  # a table for people has room for the main columns
        columns = {
            name: values
            for name, values in columns.items()
            if "." not in name and (name != "message" or any(values)) and name not in _FOR_FILES
        }
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    output.present(rows, title=title)
    output.conclude(title, then="-o FILE writes all columns")


_FOR_FILES = (
    "uncoal_insts",
    "transactions_per_uncoal",
    "bytes_per_access",
    "other_insts",
    "spread",
    "estimated_trips",
    "estimated_spread",
    "unknown",
)

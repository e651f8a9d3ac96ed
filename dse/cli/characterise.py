"""`dse characterise`: count the work of a warp in a kernel's source, by executing its machine code."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dse.cli import inputs
from dse.cli.options import Output, command
from dse.errors import DseError

if TYPE_CHECKING:
    from dse.hardware.gpus import GpuFile
    from dse.kernels.description import Description

_HOTTEST = 20  # lines of source in a table


@command(
    "Example: [bold]dse characterise transpose --gpu a100-pcie-40gb --set tile=64[/bold]; "
    "[bold]dse characterise T1.json -g a100-pcie-40gb --all --out counts.parquet[/bold]; "
    "[bold]dse characterise saxpy.cu -g a100-pcie-40gb --block 256 --grid 4096 --arg n=1048576 "
    "--explain[/bold]"
)
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
            help="All valid configurations, one a row. Results are cached, so an interrupted run resumes "
            "when it is started again.",
        ),
    ] = False,
    sample: inputs.SampleOption = None,
    seed: Annotated[int, typer.Option(min=0, max=inputs.MOST_SEED, help="Of --sample.")] = 0,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Break counts down by pipes, phases, memory instructions, branches, lines of source.",
        ),
    ] = False,
    graph: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="FILE.svg, or - for text only: the work flow graph of the average warp, with weights and "
            "waits. FILE.toml: the instructions of one warp, loops rolled, for `dse simulate FILE.toml`.",
        ),
    ] = None,
    output: Output,
) -> None:
    """Count the work in a kernel's source, without a GPU.

    KERNEL is one of `dse kernels` or a kernel.toml, compared with its description; or a T1.json; or a .cu,
    .hip, .ptx or .cubin file or a listing of machine code (.sass), launched by --block, --grid and --arg.

    Counts are of the first valid configuration with the parameters of --set, for the average warp:
    instructions, sectors, passes. Those of a phase, from one barrier to the next, are of one pass.
    """
    _check(every, sample, "--graph" if graph else "--explain" if explain else "", output)
    if graph is not None and str(graph) != "-" and graph.suffix.lower() not in (".svg", ".toml"):
        raise DseError(f"--graph: found {str(graph)!r}, expected FILE.svg, FILE.toml or -")
    if graph is not None and output.json:
        raise DseError("--json: found it with --graph, expected one of them")
    numbers = inputs.settings(changed)
    description, sizes = inputs.description(kernel, numbers, given=launch.given(numbers))
    [gpu_file] = inputs.gpus([gpu])
    from dse.report.show import progress
    from dse.source.explain import counts
    from dse.source.toolchain import toolchain

    tools = toolchain(gpu_file.gpu)
    as_phases = graph is not None and graph.suffix.lower() != ".toml" and description.build is None
    if not as_phases:
        tools.architecture(gpu_file.gpu, tools.source_of(description))  # reject unknown architectures first
    if every:
        columns, title = counts.of_space(description, sizes, gpu_file, sample, seed, progress)
        _present_all(columns, title, output)
        return
    configuration = counts.first_valid(description, sizes)
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
            finding += f"; line {line['line']} has {line['share']:.0%} of all: {line['source'].rstrip(';')}"
        output.conclude(finding, then="" if output.json else "dse rank predicts its time")
        return
    table, compiler = counts.of_configuration(description, configuration, sizes, gpu_file)
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

    The graph is of NVIDIA's machine code; for AMD's, and for a description, it is of the phases.
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
    """Reject options that exclude each other, before any work. `alone`: an option with its own output."""
    if sample is not None and not every:
        raise DseError("--sample: found it without --all, expected both")
    if alone and every:
        raise DseError(f"{alone}: found it with --all, expected one configuration")
    if alone and (output.csv or output.out is not None):
        raise DseError(f"{'--csv' if output.csv else '--out'}: found it with {alone}, expected one of them")


def _present_all(columns: Mapping[str, Sequence[Any]], title: str, output: Output) -> None:
    from dse.data.tables import rows_of, write_table

    if output.out is not None:
        write_table(output.out, columns)
        output.conclude(title)
        return
    if output.table:  # only the main columns
        columns = {
            name: values
            for name, values in columns.items()
            if "." not in name and (name != "message" or any(values)) and name not in _FOR_FILES
        }
    output.present(rows_of(columns), title=title)
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

"""`dse characterise`: what a kernel's CUDA source makes a warp do, found by executing its machine code."""

from collections import Counter
from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING

import typer

from dse.cli import inputs
from dse.cli.options import CsvOption, JsonOption, OutOption, present
from dse.errors import DseError

if TYPE_CHECKING:
    from dse.cuda.source import Found
    from dse.data.gpus import GpuFile
    from dse.types import Kernel, Resources

app = typer.Typer(rich_markup_mode="rich")

Row = tuple[str, str, float | None, float | None]  # part, name, by the source, by the description

_WARP = ("fp32", "fp64", "int32", "imul32", "sfu", "barrier")
_GLOBAL = ("load_insts", "store_insts", "uncoal_insts", "sectors", "l1", "l2", "dram")
_SHARED = ("shared_insts", "shared")


@app.command(epilog="Example: [bold]dse characterise transpose --gpu a100-pcie-40gb --set tile=64[/bold]")
def characterise(
    kernel: inputs.KernelArgument,
    gpu: inputs.GpuOption,
    changed: inputs.SetOption = None,
    json: JsonOption = False,
    csv: CsvOption = False,
    out: OutOption = None,
) -> None:
    """Count what a kernel's CUDA source does, without a GPU, beside what its description says.

    The first valid configuration is taken of those that have the parameters set. Counts are of one average
    warp: instructions, sectors, passes. Those of a phase, from a barrier to the next, are of one pass.
    """
    description, sizes = inputs.kernel(kernel, inputs.settings(changed))
    [gpu_file] = inputs.gpus([gpu])
    arch = _architecture(gpu_file)
    import jax

    from dse.cuda.characterise import to_kernel
    from dse.cuda.compile import Failure
    from dse.cuda.critical import timing
    from dse.cuda.source import characterise_all, configurations, source_of
    from dse.describe import describe

    valid = description.space.configurations(sizes)
    if not all(map(len, valid.values())):
        raise DseError(f"{description.name}: constraints: found no valid configuration, expected one")
    chosen = {name: values[0].item() for name, values in valid.items()}
    at = ", ".join(f"{name}={value}" for name, value in chosen.items())
    wanted = configurations(description, chosen, sizes, gpu_file.gpu)
    [found] = characterise_all(source_of(description), arch, wanted, timing(gpu_file.gpu))
    if isinstance(found, Failure):
        raise DseError(f"{description.name}: {found.reason}: {found.message} (at {at})")
    with jax.enable_x64(True):
        described = describe(description, chosen, sizes, gpu_file.gpu, float)
        rows = [*_resources(found, described[1]), *_whole(to_kernel(found.counts), described[0])]
    table = [
        {"part": part, "name": name, "source": source, "description": said}
        for part, name, source, said in [*rows, *_details(found)]
    ]
    title = f"{description.name} on {gpu_file.name} by {found.compiler}: {at}"
    present(table, title=title, section="part", json=json, csv=csv, out=out)


def _architecture(gpu: "GpuFile") -> int:
    """80 for compute capability 8.0. DseError for one that is not known."""
    from dse.cuda.compile import architectures, compiler

    capability = gpu.header.compute_capability
    arch = int(capability.replace(".", "")) if capability else 0
    known = architectures()
    if arch not in known:
        found = capability or f"none ({gpu.header.vendor})"
        lowest, highest = min(known) / 10, max(known) / 10
        raise DseError(
            f"{gpu.name}: compute capability: found {found}, expected one from {lowest} to {highest}, which"
            f" {compiler()} compiles for"
        )
    return arch


def _resources(found: "Found", described: "Resources") -> Iterator[Row]:
    yield "resources", "threads", prod(found.counts.block), int(described.threads)
    yield "resources", "blocks", found.counts.blocks, int(described.blocks)
    yield "resources", "registers", found.registers, int(described.registers)
    yield "resources", "shared_bytes", found.shared_bytes, int(described.shared_bytes)
    yield "resources", "stack_bytes", found.stack_bytes, None
    yield "resources", "spill_bytes", found.spill_bytes, None


def _whole(ours: "Kernel", theirs: "Kernel") -> Iterator[Row]:
    """The average warp from start to end."""
    from dse.types import CLASSES

    parts = {"warp": _WARP, "global": _GLOBAL, "shared": _SHARED, "parallelism": ("ilp", "mlp")}
    for part, names in parts.items():
        for name in names:
            a, b = (getattr(each.work if name in CLASSES else each, name) for each in (ours, theirs))
            yield part, name, float(a), float(b)


def _details(found: "Found") -> Iterator[Row]:
    """What only the source tells."""
    counts = found.counts
    yield "all phases", "instructions", counts.insts() / counts.warps, None
    yield "all phases", "blocks executed", counts.sampled, None
    yield "all phases", "largest difference of inner blocks", counts.spread, None
    unknown = Counter((each.what, ", ".join(each.depends_on)) for each in counts.unknown)
    for (what, depends_on), number in unknown.items():
        yield "all phases", f"{what} by data not stated ({depends_on})", number, None
    for place, phase in enumerate(counts.phases, 1):
        part = f"phase {place}"
        yield part, "passes", phase.passes, None
        yield part, "lanes active", phase.active, None
        for pipe, number in phase.insts.items():
            yield part, pipe, number / counts.warps, None
        for kind, access in phase.accesses.items():
            yield part, f"{kind}: requests", access.requests / counts.warps, None
            if not kind.startswith("shared"):
                yield part, f"{kind}: sectors", access.sectors / counts.warps, None
            yield part, f"{kind}: passes", access.passes / counts.warps, None
        for way, sectors in phase.new_sectors.items():
            if sectors:
                yield part, f"global {way}: new sectors", sectors / counts.warps, None

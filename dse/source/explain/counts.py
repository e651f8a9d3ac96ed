"""Counts of a kernel's source without a GPU: one configuration, number by number, or many, one a row."""

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import isnan, prod
from typing import Any

import numpy as np

from dse.core.precision import in_64_bits
from dse.core.progress import Progress, silent
from dse.errors import InputWarning
from dse.hardware.gpus import GpuFile
from dse.hardware.occupancy import LIMITERS, possible, resident_blocks
from dse.kernels.description import Description, describe
from dse.source.contract import Failure
from dse.source.explain.nvidia import configured, failed, phases
from dse.source.kernel import SourceKernel, stack_profiles, warn_of_counts
from dse.source.profiles import KernelProfile
from dse.source.toolchain import toolchain
from dse.source.warps import column_names
from dse.types import CLASSES, TENSOR, Kernel, Resources

Row = dict[str, Any]  # part, name, value from the source, value from the description

_WARP = ("fp32", "fp64", "int32", "imul32", "sfu", "barrier")
_GLOBAL = ("load_insts", "store_insts", "uncoal_insts", "sectors", "l1", "l2", "dram")
_SHARED = ("shared_insts", "shared")


def first_valid(description: Description, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first valid configuration. **Raises:** DseError if there is none."""
    valid = description.space.configurations(sizes)
    if not all(map(len, valid.values())):
        raise description.space.emptiness(description.name, sizes)
    return {name: values[0].item() for name, values in valid.items()}


def of_configuration(
    description: Description, configuration: Mapping[str, Any], sizes: Mapping[str, Any], gpu: GpuFile
) -> tuple[list[Row], str]:
    """Return the counts of one configuration, a number per row, and the compiler.

    Each row has the value from the source and, if the kernel is described, that from the description.

    **Raises:** DseError if it cannot be compiled or executed.
    """
    wanted = configured(description, configuration, sizes, gpu)
    tools = toolchain(gpu.gpu)
    source = tools.source_of(description)
    [result] = tools.characterise_all(source, tools.architecture(gpu.gpu, source), [wanted], gpu.gpu)
    if isinstance(result, Failure):
        raise failed(description, result, configuration)
    warn_of_counts(description.name, [result])
    if why := _cannot_run([result], gpu)[0]:
        problem = f"found {why}, expected a launch that {gpu.name} can run"
        warnings.warn(f"{description.name}: launch: {problem}", InputWarning, stacklevel=2)
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


def _resources(profile: KernelProfile, described: Resources | None) -> Iterator[Row]:
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


def _whole(ours: Kernel, theirs: Kernel | None) -> Iterator[Row]:
    """Yield rows of the average warp from start to end."""

    def value(kernel: Kernel, name: str) -> float:
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


def _details(profile: KernelProfile) -> Iterator[Row]:
    """Yield rows of values that only the source has."""
    counts = profile.counts
    yield _row("all phases", "instructions", counts.insts() / counts.warps)
    yield _row("all phases", "blocks executed", counts.sampled)
    yield _row("all phases", "standard error by the choice of blocks", counts.spread)
    if counts.unseen:
        yield _row("all phases", "blocks not proven to be like those executed", counts.unseen)
    for address, loop_counts in counts.estimated.items():
        loop = f"loop at 0x{address:x}: "
        yield _row("all phases", loop + "trips whose sectors and passes are estimated", loop_counts.trips)
        if not isnan(loop_counts.spread):
            yield _row("all phases", loop + "spread of those of the trips executed", loop_counts.spread)
    unknown = Counter((decision.what, ", ".join(decision.depends_on)) for decision in counts.unknown)
    for (what, depends_on), number in unknown.items():
        yield _row("all phases", f"{what} by data not stated ({depends_on})", number)
    for number_of_phase, phase in enumerate(phases(counts), 1):
        for name, value in phase.items():
            yield _row(f"phase {number_of_phase}", name.replace("_", " "), value)


def of_space(
    description: Description,
    sizes: Mapping[str, Any],
    gpu: GpuFile,
    sample: int | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> tuple[dict[str, list[Any]], str]:
    """Return the counts of each configuration, or of a random `sample`, one per row; and a title.

    **Raises:** DseError if none is valid.
    """
    indices = description.space.indices(sizes)
    if not len(indices):
        raise description.space.emptiness(description.name, sizes)
    count = len(indices)
    if sample is not None and sample < count:
        indices = np.sort(np.random.default_rng(seed).choice(indices, sample, replace=False))
    parameters = {name: np.asarray(values) for name, values in description.space.decode(indices, np).items()}
    results = SourceKernel(description, toolchain=toolchain).read(parameters, gpu.gpu, sizes, progress)
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
        # A parameter keeps its name; counts of the same name are renamed.
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
    """Join phase by phase. Missing counts of a phase are 0; those of missing phases None."""
    columns: dict[str, list[Any]] = {}
    for number in range(max(map(len, of_phases), default=0)):
        rows = [phases[number] if number < len(phases) else None for phases in of_phases]
        for name in dict.fromkeys(name for row in rows if row for name in row):
            label = f"phase{number + 1}.{name.replace(': ', '.').replace(' ', '_')}"
            columns[label] = [None if row is None else row.get(name, 0.0) for row in rows]
    return columns


def _cannot_run(results: Sequence[KernelProfile | Failure], gpu: GpuFile) -> list[str]:
    """Return why each cannot be launched on the GPU, "" if it can or was not counted."""
    code = resident_blocks(gpu.gpu.limits, stack_profiles(results)[1])[1]
    codes, fine = np.asarray(code).tolist(), np.asarray(possible(code)).tolist()
    return ["" if good else LIMITERS[limiter] for limiter, good in zip(codes, fine, strict=True)]


def _flat(profile: KernelProfile) -> Row:
    """Return resources and the average warp by column."""
    row: Row = {str(fact["name"]): fact["source"] for fact in _resources(profile, None)}
    row["insts"] = profile.counts.insts() / profile.counts.warps
    row |= zip(column_names(0), profile.numbers.tolist(), strict=False)  # those of phases follow
    row["spread"] = profile.counts.spread
    row["estimated_trips"] = sum(loop.trips for loop in profile.counts.estimated.values())
    row["estimated_spread"] = max((loop.spread for loop in profile.counts.estimated.values()), default=0.0)
    row["unknown"] = len(profile.counts.unknown)
    return row

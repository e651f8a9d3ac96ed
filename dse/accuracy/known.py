"""The best knowledge of a measured table's kernel: its source, a description, or its parameters alone.

A kernel is read from the source that the `T1.json` beside its tables names, if it is there; else it is the
described kernel that lists the folder's name; else there are the parameters alone: those that the `T1.json`
names, or without one the columns that stand before the times.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from dse.accuracy.spaces import Note, gpu_or_relative, ignore, kernel_of
from dse.core.files import read_json
from dse.core.progress import Progress, silent
from dse.data import measured
from dse.data.measured.read import Measured
from dse.errors import DseError
from dse.explore.tune import candidates
from dse.explore.tune.candidates import Candidates, bare
from dse.hardware.gpus import GpuFile
from dse.models import DEFAULT
from dse.models.protocol import Model
from dse.source import readers
from dse.source.toolchain import toolchain

COMPILED = 96  # configurations of a kernel that is read from source; the others are estimated
STAND_IN = 80  # compute capability 8.0
T1 = "T1.json"


class KnownKernel(NamedTuple):
    """A measured table, and a model's predictions of its configurations."""

    origin: str  # "source", "described" or "none"
    kernel: str  # "" where none is known
    table: Measured
    candidates: Candidates


@dataclass(frozen=True)
class PredictionSettings:
    """Settings of the predictions that are scored."""

    model: str | Model = DEFAULT
    compiled: int = COMPILED
    source: bool = False  # described kernels are read from the source that comes with them


DEFAULTS = PredictionSettings()


def known(
    path: Path, how: PredictionSettings, note: Note = ignore, progress: Progress = silent
) -> KnownKernel:
    """Pair a table with the best that is known of its kernel.

    **Raises:** DseError if the table cannot be read.
    """
    return (
        _from_source(path, how, note, progress)
        or from_description(path, how.model, note)
        or _from_parameters(path, note)
    )


def from_description(path: Path, model: str | Model = DEFAULT, note: Note = ignore) -> KnownKernel | None:
    """Take the described kernel that a table's folder is named after; None if there is none."""
    description = kernel_of(path)
    if description is None:
        return None
    try:
        gpu = gpu_or_relative(path, note)
        table = measured.load(path, description)
    except DseError as error:
        note(f"{path}: not predicted: {error}")
        return None
    choices = candidates.of_kernel(description, gpu, model, table.parameters, table.problem)
    return KnownKernel("described", description.name, table, choices)


def _from_source(
    path: Path, how: PredictionSettings, note: Note = ignore, progress: Progress = silent
) -> KnownKernel | None:
    """Read the kernel that the T1 beside a table names from its source; None if it cannot be.

    If sources are asked for, it is the one of the kernel that lists the folder's name.
    """
    problem = path.with_name(T1)
    if not how.source and not problem.is_file():
        return None
    try:
        description = kernel_of(path) if how.source else readers.load(problem)
        if description is None or description.source is None or not description.source.is_file():
            return None
        kernel = readers.counts_of(description, source=True, compiled=how.compiled)
        gpu = _compiled_for(gpu_or_relative(path, note), note)
        table = measured.load(path, kernel)
        choices = candidates.of_kernel(kernel, gpu, how.model, table.parameters, table.problem, progress)
    except DseError as error:
        if how.source or kernel_of(path) is None:  # else its description is as good, and nobody asked
            note(f"{path}: not read from source: {error}")
        return None
    return KnownKernel("source", description.name, table, choices)


def _from_parameters(path: Path, note: Note) -> KnownKernel:
    """Take the parameters that the T1 beside a table names, or the table's own, without a kernel.

    **Raises:** DseError if there are none.
    """
    problem, names = path.with_name(T1), list[str]()
    try:
        space = read_json(problem)["ConfigurationSpace"]
        names = [parameter["Name"] for parameter in space["TuningParameters"]]
    except (DseError, KeyError, TypeError) as error:
        note(
            f"{path}: {problem.name} beside it names no parameters ({error}): those of the table are taken"
            if problem.exists()
            else f"{path}: no {T1} beside it: the columns before the times are taken for the parameters"
        )
    try:
        table = measured.load_space(path, names)
    except DseError as error:
        if not names:
            raise
        note(f"{error}: the columns before the times are taken for the parameters")
        table = measured.load_space(path, ())
    return KnownKernel("none", "", table, bare(table.parameters))


def _compiled_for(gpu: GpuFile, note: Note) -> GpuFile:
    """Return the GPU; one that no compiler knows with a stand-in for what to compile for."""
    try:
        toolchain(gpu.gpu).architecture(gpu.gpu, None)
    except DseError as error:
        note(f"{error}: counted as for compute capability {STAND_IN / 10}")
        return replace(gpu, gpu=replace(gpu.gpu, compute_capability=STAND_IN))
    return gpu

"""The most that is known of a measured table's kernel: its source, a description, or only its parameters.

The source is that of the `T1.json` in the table's folder, the description that of the kernel that lists the
folder's name. Otherwise the parameters are those of the `T1.json`, or the columns before the times.
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

COMPILED = 96  # configurations compiled of a kernel from source; the others are estimated
STAND_IN = 80  # compute capability 8.0, for GPUs that the compiler does not know
T1 = "T1.json"


class KnownKernel(NamedTuple):
    """A measured table, and a model's predictions of its configurations."""

    origin: str  # "source", "described" or "none"
    kernel: str  # "" if unknown
    table: Measured
    candidates: Candidates


@dataclass(frozen=True)
class PredictionSettings:
    """Settings of the predictions that are scored."""

    model: str | Model = DEFAULT
    compiled: int = COMPILED
    source: bool = False  # read described kernels from their source


DEFAULTS = PredictionSettings()


def known(
    path: Path, how: PredictionSettings, note: Note = ignore, progress: Progress = silent
) -> KnownKernel:
    """Load a table with the most that is known of its kernel.

    **Raises:** DseError if the table cannot be read.
    """
    return (
        _from_source(path, how, note, progress)
        or from_description(path, how.model, note)
        or _from_parameters(path, note)
    )


def from_description(path: Path, model: str | Model = DEFAULT, note: Note = ignore) -> KnownKernel | None:
    """Use the described kernel that lists the name of the table's folder; None if there is none."""
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
    """Read the kernel of the T1 in the table's folder from source; None if that fails.

    With `how.source` it is the kernel that lists the folder's name.
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
        if how.source or kernel_of(path) is None:  # else the description serves, and source was not requested
            note(f"{path}: not read from source: {error}")
        return None
    return KnownKernel("source", description.name, table, choices)


def _from_parameters(path: Path, note: Note) -> KnownKernel:
    """Use only parameters: those of the T1 in the table's folder, or the table's own.

    **Raises:** DseError if there are none.
    """
    problem, names = path.with_name(T1), list[str]()
    try:
        space = read_json(problem)["ConfigurationSpace"]
        names = [parameter["Name"] for parameter in space["TuningParameters"]]
    except (DseError, KeyError, TypeError) as error:
        note(
            f"{path}: {problem.name} in its folder names no parameters ({error}): the table's are used"
            if problem.exists()
            else f"{path}: no {T1} in its folder: the columns before the times are used as parameters"
        )
    try:
        table = measured.load_space(path, names)
    except DseError as error:
        if not names:
            raise
        note(f"{error}: the columns before the times are used as parameters")
        table = measured.load_space(path, ())
    return KnownKernel("none", "", table, bare(table.parameters))


def _compiled_for(gpu: GpuFile, note: Note) -> GpuFile:
    """Return the GPU, with the architecture STAND_IN if no compiler knows its own."""
    try:
        toolchain(gpu.gpu).architecture(gpu.gpu, None)
    except DseError as error:
        note(f"{error}: counted as for compute capability {STAND_IN / 10}")
        return replace(gpu, gpu=replace(gpu.gpu, compute_capability=STAND_IN))
    return gpu

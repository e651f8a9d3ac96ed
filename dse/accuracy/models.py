"""Scores of models on measured spaces that others measured; nothing is fitted."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from dse.accuracy.markdown import number, table
from dse.accuracy.spaces import Note, files, ignore, kernel_of, nothing_in, space_of
from dse.core.files import read_toml
from dse.core.progress import Progress, silent
from dse.data import measured
from dse.data.measured.read import Measured
from dse.errors import DseError
from dse.evaluate.compare import compare, sample
from dse.hardware import gpus
from dse.hardware.gpus import GpuFile
from dse.kernels.counts import Counts, Number
from dse.kernels.description import Description
from dse.models import MODELS
from dse.models.protocol import Model
from dse.source import readers
from dse.source.toolchain import toolchain

FILE = Path(__file__).with_name("chosen.toml")
Fed = Literal["description", "source"]


class ChosenRule(BaseModel):
    """A rule, and the tables on which it was chosen, as SPACE/FILE."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    what: str
    tables: tuple[str, ...]
    fed: Fed | None = None  # the counts that it affects; None: both


@cache
def rules() -> tuple[ChosenRule, ...]:
    """Read all rules."""
    return tuple(ChosenRule.model_validate(entry) for entry in read_toml(FILE)["rules"])


def chosen_on(path: Path, fed: Fed) -> str:
    """List the rules that were chosen on a table for models with such counts; "" if there are none."""
    table = f"{space_of(path)}/{path.name.split('.')[0]}"
    return "; ".join(rule.what for rule in rules() if table in rule.tables and rule.fed in (None, fed))


COLUMNS = {
    "spearman": "Spearman",
    "mape_percent": "MAPE [%]",
    "mape_shape_percent": "MAPE_shape [%]",
    "top_1": "top 1",
    "top_10": "top 10",
    "top_1_percent": "top 1 %",
    "top_5_percent": "top 5 %",
    "top_10_percent": "top 10 %",
}


@dataclass(frozen=True)
class SpaceScores:
    """Scores of models on one measured space."""

    space: str
    kernel: str
    gpu: str
    rows: list[dict[str, Any]]  # of `dse.evaluate.compare.compare`, one for each model
    compiler: str = ""  # if counts come from source
    vendor: str = ""  # of the GPU, if counts come from source
    chosen: str = ""  # rules that were chosen on this table

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name, `compiler` if there is one."""
        return {name: value for name, value in asdict(self).items() if value != ""}

    @property
    def provenance(self) -> str:
        """A sentence that names the rules chosen on this very table."""
        if not self.chosen:
            return "No rule was chosen on this table."
        return f"Chosen while looking at this table: {self.chosen}."

    @property
    def summary(self) -> str:
        """Numbers of configurations, failed ones, and ones predicted to fail, as text."""
        first = self.rows[0]
        by = f"; {self.compiler}" if self.compiler else ""
        return (
            f"{first['configurations']:,} configurations, {first['failed']:,} of them failed; "
            f"{first['unpredicted']:,} predicted impossible{by}"
        )


def described(
    folder: Path,
    models: Sequence[str | Model] = tuple(MODELS),
    note: Note = ignore,
    progress: Progress = silent,
) -> Iterator[SpaceScores]:
    """Score models that are fed with the kernels' descriptions, on all measured spaces of a folder.

    **Raises:** DseError if no space has a described kernel, or if a table or its GPU cannot be read.
    """
    empty = True
    for path in files(folder, note=note):
        description = kernel_of(path)
        if description is None:
            note(f"{path}: no kernel lists the space {space_of(path)}: left out")
            continue
        gpu, empty = gpus.in_name(path), False
        scores = _scored(path, gpu, description, measured.load(path, description), models, {}, progress)
        yield replace(scores, chosen=chosen_on(path, "description"))
    if empty:
        raise nothing_in(folder)


def from_source(
    folder: Path,
    number: int,
    changed: Mapping[str, Number] | None = None,
    models: Sequence[str | Model] = tuple(MODELS),
    note: Note = ignore,
    progress: Progress = silent,
    only: str = "",
) -> Iterator[SpaceScores]:
    """Score models with counts from the kernels' source.

    Of each table `number` random configurations that ran are used. `changed` fixes parameters of the kernels
    that have them, and changes problem sizes. `only` selects the tables whose SPACE/FILE contains it. Kernels
    without source and GPUs unknown to the compiler are left out.

    **Raises:** DseError as `described`, for a name in `changed` that no kernel has, and if nothing compiles.
    """
    changed = changed or {}
    tables = [(path, kernel) for path in files(folder, only) if (kernel := kernel_of(path)) and kernel.build]
    _check_names(changed, [kernel for _, kernel in tables])
    empty = True
    for path, description in tables:
        gpu = gpus.in_name(path)
        tools = toolchain(gpu.gpu)
        try:
            source = tools.source_of(description)
            tools.architecture(gpu.gpu, source)
        except DseError as error:
            note(f"{path}: {error}: left out")
            continue
        kernel, problem = _fixed(description, changed)
        times = measured.load(path, kernel)
        times, empty = times.rows(sample(times, kernel, number)), False
        scores = _scored(path, gpu, kernel, times, models, problem, progress)
        tuned_on = chosen_on(path, "source")
        yield replace(scores, compiler=source.compiler, vendor=gpu.header.vendor, chosen=tuned_on)
    if empty:
        raise nothing_in(folder)


def markdown(spaces: Iterable[SpaceScores]) -> str:
    """Write a table of all rank correlations, then a section for each space."""
    spaces = tuple(spaces)
    return "\n\n".join([_ranks(spaces), *map(_section, spaces)])


def _ranks(spaces: Sequence[SpaceScores]) -> str:
    """Write the rank correlation of each model on each space."""
    columns = ("Spearman", *(f"{space.space}, {space.gpu}" for space in spaces))
    models = zip(*(space.rows for space in spaces), strict=True)
    rows = [[rows[0]["model"], *(number(row.get("spearman")) for row in rows)] for rows in models]
    return table(columns, [row for row in rows if any(row[1:])])


def _section(space: SpaceScores) -> str:
    scores = [[row["model"], *(number(row.get(name)) for name in COLUMNS)] for row in space.rows]
    head = f"### {space.space} on {space.gpu}\n\n{space.summary}. {space.provenance}"
    return f"{head}\n\n{table(('model', *COLUMNS.values()), scores)}"


def _scored(
    path: Path,
    gpu: GpuFile,
    kernel: Counts,
    times: Measured,
    models: Sequence[str | Model],
    problem: Mapping[str, Number],
    progress: Progress,
) -> SpaceScores:
    rows = list(compare(kernel, gpu.gpu, models, times, problem, progress))
    return SpaceScores(space_of(path), kernel.name, gpu.name, rows)


def _fixed(description: Description, changed: Mapping[str, Number]) -> tuple[Counts, dict[str, Number]]:
    """Read a kernel from source, with those of `changed` that it has."""
    known = {*description.space.names, *dict(description.problem)}
    own = {name: value for name, value in changed.items() if name in known}
    fixed, sizes = description.with_changed(own)
    return readers.counts_of(fixed, source=True), sizes


def _check_names(changed: Mapping[str, Number], kernels: Iterable[Description]) -> None:
    names_of = {kernel.name: {*kernel.space.names, *dict(kernel.problem)} for kernel in kernels}
    for name in changed:
        if names_of and not any(name in names for names in names_of.values()):
            raise DseError(f"values: found {name!r}, expected a parameter or size of {', '.join(names_of)}")

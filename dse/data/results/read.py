"""Result files read back: what rank, sweep, compare, tune, search and prune write, in one vocabulary.

Whatever the file (Parquet, CSV, JSON, JSON lines), configurations come as a `ResultSpace` for each kernel and
GPU, with a forecast for each model; scores of models come as rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dse.data.columns import of_model
from dse.data.results.merge import put, stand_beside
from dse.data.results.space import ResultSpace
from dse.data.results.split import cut
from dse.data.results.table import read_table
from dse.data.results.vocabulary import SCORES


@dataclass(frozen=True)
class Results:
    """What result files hold."""

    spaces: tuple[ResultSpace, ...]
    scores: tuple[Mapping[str, Any], ...] = ()  # rows of `dse compare`
    notes: tuple[str, ...] = ()  # what a reader has to know of how files were read


def read(
    paths: Sequence[Path], models: Iterable[str] = (), kernel: str | None = None, gpu: str | None = None
) -> Results:
    """Read result files. `kernel` and `gpu` name what files do not; `models` are names that columns may have.

    Files that tell of the same configurations by different models are put together.

    **Raises:** DseError, one line, where a file cannot be read or is no result.
    """
    spaces, scores, notes = list[ResultSpace](), list[Mapping[str, Any]](), list[str]()
    known = {column: model for model in models for column in (model, of_model(model))}
    for path in paths:
        table = read_table(path)
        if "model" in table.column_names and any(name in table.column_names for name in SCORES):
            scores += [{"file": path.name} | row for row in table.to_pylist()]
            continue
        for space in cut(path, table, known, kernel, gpu, notes):
            put(spaces, space)
    return Results(tuple(stand_beside(spaces, notes)), tuple(scores), tuple(notes))

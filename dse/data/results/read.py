"""Read back the result files of rank, sweep, compare, tune, search and prune.

Parquet, CSV, JSON and JSON lines all give a `ResultSpace` for each kernel and GPU, with a forecast for each
model; scores of models are rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dse.data.columns import of_model
from dse.data.measured import formats
from dse.data.results.merge import attach_measurements, merge_forecasts
from dse.data.results.space import SCORES, UNREAD, Results, ResultSpace
from dse.data.results.split import split_by_kernel_and_gpu
from dse.data.safe_readers import parquet
from dse.data.table import Table
from dse.errors import DseError

SUFFIXES = (".parquet", ".csv", ".csv.gz", ".json", ".jsonl")
MOST_ROWS = 4_000_000  # of a file: about 3 GB of memory


def read(
    paths: Sequence[Path], models: Iterable[str] = (), kernel: str | None = None, gpu: str | None = None
) -> Results:
    """Read result files. `kernel` and `gpu` are defaults for files without them; `models` name columns.

    Files of the same configurations are merged: different models, or two runs of one model.

    **Raises:** DseError, one line, if a file cannot be read or is not a result.
    """
    spaces, scores, notes = list[ResultSpace](), list[Mapping[str, Any]](), list[str]()
    known = {column: model for model in models for column in (model, of_model(model))}
    for path in paths:
        table = read_table(path)
        if "model" in table.names and any(name in table.names for name in SCORES):
            scores += [{"file": path.name} | row for row in table.table.to_pylist()]
            continue
        for space in split_by_kernel_and_gpu(path, table, known, kernel, gpu, notes):
            merge_forecasts(spaces, space, notes)
    return Results(tuple(attach_measurements(spaces, notes)), tuple(scores), tuple(notes))


def read_table(path: Path, most_rows: int = MOST_ROWS) -> Table:
    """Read a file's rows. **Raises:** DseError without any, and for two columns of one name."""
    name = path.name.lower()
    if not name.endswith(SUFFIXES):
        suffix = repr(path.suffix) if path.suffix else "no suffix"
        raise DseError(f"{path}: suffix: found {suffix}, expected {', '.join(SUFFIXES)}")
    if name.endswith(".parquet"):
        return Table(path, parquet(path, without=UNREAD, rows=most_rows))
    return formats.read(path, formats.ROWS)

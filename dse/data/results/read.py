"""Result files read back: what rank, sweep, compare, tune, search and prune write, in one vocabulary.

Whatever the file (Parquet, CSV, JSON, JSON lines), configurations come as a `ResultSpace` for each kernel and
GPU, with a forecast for each model; scores of models come as rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dse.core.files import parse_json, read_json, read_text
from dse.data.columns import of_model
from dse.data.results.merge import put, stand_beside
from dse.data.results.space import ResultSpace
from dse.data.results.split import cut
from dse.data.results.vocabulary import SCORES, UNREAD
from dse.data.safe_readers import text
from dse.data.table import Table
from dse.errors import DseError

SUFFIXES = (".parquet", ".csv", ".csv.gz", ".json", ".jsonl")
MOST_ROWS = 4_000_000  # of a file: about 3 GB of memory


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

    Files that tell of the same configurations are put together: different models, or two runs of one model.

    **Raises:** DseError, one line, where a file cannot be read or is no result.
    """
    spaces, scores, notes = list[ResultSpace](), list[Mapping[str, Any]](), list[str]()
    known = {column: model for model in models for column in (model, of_model(model))}
    for path in paths:
        table = read_table(path)
        if "model" in table.names and any(name in table.names for name in SCORES):
            scores += [{"file": path.name} | row for row in table.table.to_pylist()]
            continue
        for space in cut(path, table, known, kernel, gpu, notes):
            put(spaces, space, notes)
    return Results(tuple(stand_beside(spaces, notes)), tuple(scores), tuple(notes))


def read_table(path: Path, most_rows: int = MOST_ROWS) -> Table:
    """Read a file's rows. **Raises:** DseError for none, and for two columns of one name."""
    name = path.name.lower()
    if name.endswith(".parquet"):
        return Table.of_parquet(path, without=UNREAD, most_rows=most_rows)
    if name.endswith((".csv", ".csv.gz")):
        return Table.of_csv(path, text(path))
    if name.endswith(".jsonl"):
        lines = enumerate(read_text(path).splitlines(), 1)
        rows = [_of_journal(parse_json(line, f"{path}: line {i}"), i) for i, line in lines if line]
    elif name.endswith(".json"):
        rows = read_json(path)
    else:
        suffix = repr(path.suffix) if path.suffix else "no suffix"
        raise DseError(f"{path}: suffix: found {suffix}, expected {', '.join(SUFFIXES)}")
    if not isinstance(rows, list):
        raise DseError(f"{path}: top level: found {type(rows).__name__}, expected a list of rows")
    return Table.of_rows(path, rows, empty=True, most_rows=most_rows)


def _of_journal(line: Any, number: int) -> Any:
    """Read a line of a journal of `dse tune`, which has the parameters in a table of their own."""
    if isinstance(line, dict) and isinstance(line.get("parameters"), dict):
        return {"number": number} | line["parameters"] | {"measured_s": line.get("seconds")}
    return line

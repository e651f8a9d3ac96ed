"""Result files read back: what rank, sweep, compare, tune, search and prune write, in one vocabulary.

Whatever the file (Parquet, CSV, JSON, JSON lines), configurations come as a `Space` for each kernel and GPU,
with a forecast for each model; scores of models come as rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dse import packed
from dse.columns import of_model
from dse.errors import DseError
from dse.files import parse_json, read_json, read_text

SUFFIXES = (".parquet", ".csv", ".csv.gz", ".json", ".jsonl")
MOST_SIZES = 24
MOST_ROWS = 4_000_000  # of a file: about 3 GB of memory
NO_GPU = "GPU not stated"
MEASURED, PREDICTED, REFITTED = "measured", "predicted", "refitted"  # forecasts that files name no model of
SYNONYMS = {  # names that files of earlier versions have: those of `dse.columns`
    "seconds": "time_s",
    "time": "time_s",
    "measured": "measured_s",
    "measured_time_s": "measured_s",
    "low": "low_s",
    "high": "high_s",
    "refitted": "refitted_s",
    "fastest": "fastest_s",
    "optimum": "optimum_s",
    "shared": "shared_bytes",
    "limited by": "limited_by",
    "above optimum [%]": "above_optimum_percent",
    "P(best)": "chance_fastest",
    "P(within 5 %)": "chance_near",
}
UNREAD = ("rank", "cycles")  # worked out anew, and said by the time
REFIT = "refitted_s"  # the time of a forecast of its own
OF_A_MODEL = ("time_s", "low_s", "high_s", "bottleneck")
FACTS = (  # of a configuration, whatever the model
    *("threads", "blocks", "registers", "shared_bytes", "warps_per_sm", "occupancy", "limited_by"),
    *(
        "possible",
        "measured_s",
        "number",
        "fastest_s",
        "optimum_s",
        "above_optimum_percent",
        "thread_instructions",
    ),
    *("dram_bytes", "chance_fastest", "chance_near", "status", "kept"),
)
WORDS = ("bottleneck", "limited_by", "status", "kept")  # of these, columns of words
SCORES = ("spearman", "mape")  # what tells a file of scores


@dataclass(frozen=True)
class Space:
    """The configurations of one kernel on one GPU, [L], with all that files say of them.

    Times are in seconds, NaN where there is none; words are arrays of `object`, None where there is none.
    """

    kernel: str
    gpu: str
    source: str  # the files it is from
    parameters: Mapping[str, np.ndarray]  # those that vary, sizes of the problem among them
    fixed: Mapping[str, Any]  # those that do not
    facts: Mapping[str, np.ndarray]  # of FACTS
    forecasts: Mapping[str, Mapping[str, np.ndarray]]  # by model: of OF_A_MODEL, `time_s` at least
    size: str = ""  # of the problem, in words, where files have several

    @property
    def count(self) -> int:
        """How many configurations there are."""
        columns = (*self.parameters.values(), *self.facts.values())
        return len(next(iter(columns))) if columns else 1

    def rows(self, chosen: np.ndarray) -> "Space":
        """Take some of its configurations, by their numbers."""

        def take(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            return {name: values[chosen] for name, values in columns.items()}

        forecasts = {model: take(columns) for model, columns in self.forecasts.items()}
        return replace(self, parameters=take(self.parameters), facts=take(self.facts), forecasts=forecasts)

    def by_size(self, names: Sequence[str]) -> list["Space"]:
        """Cut it by the sizes of the problem that vary, of `names`: only times of one size compare.

        More than `MOST_SIZES` of them stay together.
        """
        varying = [name for name in names if name in self.parameters]
        if not varying:
            return [self]
        columns = np.stack([codes(self.parameters[name])[0] for name in varying], axis=1)
        _, first, index = np.unique(columns, axis=0, return_index=True, return_inverse=True)
        if len(first) > MOST_SIZES:
            return [self]
        cut = []
        for i, place in enumerate(first):
            sizes = {name: _plain(self.parameters[name][place]) for name in varying}
            part = self.rows(np.flatnonzero(index.ravel() == i))
            rest = {name: values for name, values in part.parameters.items() if name not in sizes}
            words = ", ".join(
                f"{name} {value:,}" if _counts(value) else f"{name} {value}" for name, value in sizes.items()
            )
            cut.append(replace(part, parameters=rest, fixed={**self.fixed, **sizes}, size=words))
        return cut

    def parameter(self, name: str) -> np.ndarray | None:
        """The values of a parameter, whether it varies or not; None where files do not say it."""
        if name in self.parameters:
            return self.parameters[name]
        return self.constant(self.fixed[name]) if name in self.fixed else None

    def constant(self, value: Any) -> np.ndarray:
        """The same value for each configuration."""
        return np.full(self.count, value)


@dataclass(frozen=True)
class Results:
    """What result files hold."""

    spaces: tuple[Space, ...]
    scores: tuple[Mapping[str, Any], ...] = ()  # rows of `dse compare`
    notes: tuple[str, ...] = ()  # what a reader has to know of how files were read


def read(
    paths: Sequence[Path], models: Iterable[str] = (), kernel: str | None = None, gpu: str | None = None
) -> Results:
    """Read result files. `kernel` and `gpu` name what files do not; `models` are names that columns may have.

    Files that tell of the same configurations by different models are put together.

    **Raises:** DseError, one line, where a file cannot be read or is no result.
    """
    spaces, scores, notes = list[Space](), list[Mapping[str, Any]](), list[str]()
    known = {column: model for model in models for column in (model, of_model(model))}
    for path in paths:
        table = _table(path)
        if "model" in table.column_names and any(name in table.column_names for name in SCORES):
            scores += [{"file": path.name} | row for row in table.to_pylist()]
            continue
        for space in _spaces(path, table, known, kernel, gpu, notes):
            _put(spaces, space)
    return Results(tuple(_beside(spaces, notes)), tuple(scores), tuple(notes))


def _table(path: Path) -> pa.Table:
    """Read a file's rows, columns named by the vocabulary."""
    table = _rows(path)
    if not table.num_rows:
        raise DseError(f"{path}: rows: found none, expected at least one")
    given = table.column_names
    twice = [name for name in given if given.count(name) > 1]
    if twice:
        raise DseError(f"{path}: columns: found {twice[0]} twice, expected each name once")
    # a parameter may be called `shared`, beside shared_bytes
    return table.rename_columns(
        [name if SYNONYMS.get(name) in given else SYNONYMS.get(name, name) for name in given]
    )


def _rows(path: Path) -> pa.Table:
    name = path.name.lower()
    if name.endswith(".parquet"):
        return packed.parquet(path, without=UNREAD, rows=MOST_ROWS)
    if name.endswith((".csv", ".csv.gz")):
        return packed.csv_table(path, packed.text(path))
    if not name.endswith((".json", ".jsonl")):
        suffix = repr(path.suffix) if path.suffix else "no suffix"
        raise DseError(f"{path}: suffix: found {suffix}, expected {', '.join(SUFFIXES)}")
    if name.endswith(".jsonl"):
        lines = enumerate(read_text(path).splitlines(), 1)
        rows = [_of_journal(parse_json(line, f"{path}: line {i}"), i) for i, line in lines if line]
    else:
        rows = read_json(path)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise DseError(f"{path}: top level: found {type(rows).__name__}, expected a list of rows")
    columns = dict.fromkeys(column for row in rows for column in row)
    packed.check_size(path, len(columns), len(rows), MOST_ROWS)
    return pa.table({column: _cells([row.get(column) for row in rows]) for column in columns})


def _of_journal(line: Any, number: int) -> Any:
    """Read a line of a journal of `dse tune`, which has the parameters in a table of their own."""
    if isinstance(line, dict) and isinstance(line.get("parameters"), dict):
        return {"number": number} | line["parameters"] | {"measured_s": line.get("seconds")}
    return line


def _cells(cells: list[Any]) -> pa.Array:
    try:
        return pa.array(cells)
    except (pa.ArrowException, OverflowError):  # numbers beside words
        return pa.array([None if cell is None else str(cell) for cell in cells])


def _array(column: pa.ChunkedArray) -> np.ndarray:
    """Give a column as integers, truth values, floats with NaN, or words with None."""
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if pa.types.is_boolean(kind):
        return column.cast(pa.int8()).to_numpy().astype(float) == 1
    if pa.types.is_integer(kind) and not column.null_count:
        return column.to_numpy()
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return column.cast(pa.float64()).to_numpy()
    words = column if pa.types.is_dictionary(kind) else _words(column).dictionary_encode()
    coded = words.combine_chunks() if words.num_chunks != 1 else words.chunk(0)
    names = np.array([*coded.dictionary.to_pylist(), None], object)
    return names[np.asarray(coded.indices.fill_null(len(names) - 1))]


def _words(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Write a column's cells as words, whatever they are."""
    if not pa.types.is_nested(column.type) and not pa.types.is_binary(column.type):
        with suppress(pa.ArrowException):
            return column.cast(pa.string())
    return pa.chunked_array(
        [[None if cell is None else str(cell) for cell in column.to_pylist()]], pa.string()
    )


def codes(values: np.ndarray) -> tuple[np.ndarray, list[Any]]:
    """Number the distinct values of a column, [L], in order; words keep the order in which they come."""
    if values.dtype == object:
        names = {name: i for i, name in enumerate(dict.fromkeys(values.tolist()))}
        return np.fromiter((names[value] for value in values), np.int64, len(values)), list(names)
    distinct, index = np.unique(values, return_inverse=True)
    return index, distinct.tolist()


def _spaces(
    path: Path,
    table: pa.Table,
    models: Mapping[str, str],
    kernel: str | None,
    gpu: str | None,
    notes: list[str],
) -> Iterable[Space]:
    """Cut a file into the configurations of each kernel and GPU."""
    if "number" in table.column_names and "measured_s" not in table.column_names:  # of `dse tune`: measured
        table = table.rename_columns(["measured_s" if n == "time_s" else n for n in table.column_names])

    def coded(name: str, absent: str | None) -> tuple[np.ndarray, list[Any]]:
        if name in table.column_names:
            numbers, names = codes(_array(table.column(name)))
            return numbers, [absent if each is None or each != each else str(each) for each in names]
        return np.zeros(table.num_rows, np.int64), [absent]

    kernels, kernel_names = coded("kernel", kernel or path.name.partition(".")[0])
    gpus, gpu_names = coded("gpu", gpu or NO_GPU)
    model, model_names = coded("model", None)
    pairs, first, number = np.unique(kernels * len(gpu_names) + gpus, return_index=True, return_inverse=True)
    others = [name for name in table.column_names if name not in ("kernel", "gpu", "model")]
    for i in np.argsort(first):  # in the order of the file
        rows = np.flatnonzero(number == i)
        part = table.select(others).take(pa.array(rows))  # a part at a time: files may be large
        here = {name: _checked(path, name, _array(part.column(name)), models) for name in others}
        name, card = kernel_names[pairs[i] // len(gpu_names)], gpu_names[pairs[i] % len(gpu_names)]
        yield _space(path, name, card, here, model[rows], model_names, models, notes)


def _checked(path: Path, name: str, values: np.ndarray, models: Mapping[str, str]) -> np.ndarray:
    """Return a column of numbers or words, as its name says. **Raises:** DseError where it is not."""
    if name in WORDS and values.dtype != object:
        return np.array([str(each) for each in values.tolist()], object)
    if (
        name not in WORDS
        and (name in (*OF_A_MODEL, *FACTS, REFIT) or name in models)
        and values.dtype == object
    ):
        found = next((each for each in values if each is not None and not _is_number(each)), values[0])
        raise DseError(f"{path}: {name}: found {str(found)[:40]!r}, expected numbers")
    return values


def _counts(value: Any) -> bool:
    return isinstance(value, int | float)


def _is_number(word: Any) -> bool:
    try:
        return bool(float(word) or True)
    except ValueError:
        return False


def _space(
    path: Path,
    kernel: str,
    gpu: str,
    columns: dict[str, np.ndarray],
    model: np.ndarray,
    model_names: list[str | None],
    models: Mapping[str, str],
    notes: list[str],
) -> Space:
    """Make one line a configuration of one line a configuration and model."""
    beside = {
        name: columns[name] for name in columns if name in models
    }  # of `dse rank -m a -m b`, those of b
    given = {
        name: values
        for name, values in columns.items()
        if name not in (*OF_A_MODEL, *FACTS, *UNREAD, REFIT, *beside) and not _missing(values).all()
    }
    given = {name: _whole(values) for name, values in given.items()}
    varying = {name: values for name, values in given.items() if len(codes(values)[1]) > 1}
    fixed = {name: _plain(values[0]) for name, values in given.items() if name not in varying}
    present = np.unique(model)
    of = [np.flatnonzero(model == number) for number in present]
    first = of[0]
    alike = all(
        len(rows) == len(first)
        and all(np.array_equal(values[rows], values[first]) for values in varying.values())
        for rows in of[1:]
    )
    if alike:
        places = [np.arange(len(first))] * len(of)
        lead, count = first, len(first)
    else:
        keys = np.stack([codes(values)[0] for values in (model * 0, *varying.values())], axis=1)
        _, lead, index = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        rank = np.argsort(np.argsort(lead))  # configurations in the order of the file
        index, lead, count = rank[index.ravel()], np.sort(lead), len(lead)
        places = [index[rows] for rows in of]
        if any(len(np.unique(place)) < len(place) for place in places):
            notes.append(f"{path.name}: configurations that come twice are shown once, by their last row.")
    forecasts: dict[str, dict[str, np.ndarray]] = {}
    for number, rows, place in zip(present, of, places, strict=True):
        told = {name: _at(columns[name][rows], place, count) for name in OF_A_MODEL if name in columns}
        if REFIT in columns:  # the interval is of the refitted time
            interval = {name: told.pop(name) for name in ("low_s", "high_s") if name in told}
            forecasts[REFITTED] = {"time_s": _at(columns[REFIT][rows], place, count)} | interval
        if "time_s" in told:
            forecasts[model_names[number] or PREDICTED] = told
    for name, values in beside.items():
        forecasts[models[name]] = {"time_s": values[lead].astype(float)}
    facts = {name: columns[name][lead] for name in FACTS if name in columns}
    if "measured_s" in facts:
        forecasts[MEASURED] = {"time_s": facts["measured_s"].astype(float)}
    parameters = {name: values[lead] for name, values in varying.items()}
    if not parameters and not facts:
        parameters = {"configuration": np.arange(1, count + 1)}
    return Space(kernel, gpu, path.name, parameters, fixed, facts, _finite(forecasts))


def _finite(forecasts: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, dict[str, np.ndarray]]:
    """Infinite times, of what cannot run, become NaN."""

    def finite(values: np.ndarray) -> np.ndarray:
        if values.dtype == object:
            return values
        return np.where(np.isfinite(values), values, np.nan)

    return {
        model: {name: finite(values) for name, values in columns.items()}
        for model, columns in forecasts.items()
    }


def _at(values: np.ndarray, places: np.ndarray, count: int) -> np.ndarray:
    if len(values) == count and np.array_equal(places, np.arange(count)):
        return values
    full = np.full(count, None, object) if values.dtype == object else np.full(count, np.nan)
    full[places] = values
    return full


def _missing(values: np.ndarray) -> np.ndarray:
    return values == np.array(None, object) if values.dtype == object else np.isnan(values.astype(float))


def _whole(values: np.ndarray) -> np.ndarray:
    """Whole numbers that came as floats, as empty cells of other kernels make them."""
    whole = values.dtype.kind == "f" and np.isfinite(values).all() and np.all(values == np.floor(values))
    return values.astype(np.int64) if whole else values


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _put(spaces: list[Space], new: Space) -> None:
    """Add a space, or put its forecasts beside those that another file has of the same configurations."""
    for i, old in enumerate(spaces):
        if (old.kernel, old.gpu, old.count, dict(old.fixed)) != (
            new.kernel,
            new.gpu,
            new.count,
            dict(new.fixed),
        ):
            continue
        if set(old.forecasts) & set(new.forecasts) or set(old.parameters) != set(new.parameters):
            continue
        place = _match(new.parameters, old.parameters)
        if place is None or (place < 0).any():
            continue
        moved = new.rows(place)
        spaces[i] = replace(
            old,
            source=f"{old.source}, {new.source}",
            facts={**moved.facts, **old.facts},
            forecasts={**old.forecasts, **moved.forecasts},
        )
        return
    spaces.append(new)


def _match(known: Mapping[str, np.ndarray], asked: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Find where each configuration asked for lies among those known, -1 where it is not; by `known`'s names.

    None where `asked` lacks one of these, or a configuration is known twice.
    """
    if not known or any(name not in asked for name in known):
        return None
    lines = list(zip(*(values.tolist() for values in known.values()), strict=True))
    at = {line: i for i, line in enumerate(lines)}
    if len(at) < len(lines):
        return None
    wanted = zip(*(asked[name].tolist() for name in known), strict=True)
    return np.array([at.get(line, -1) for line in wanted], np.int64)


def _beside(spaces: Sequence[Space], notes: list[str]) -> list[Space]:
    """Put what one file measured or kept beside what another predicted, where only one fits."""
    kept = list(spaces)
    for told in spaces:
        measured = set(told.forecasts) == {MEASURED}
        if told.forecasts and not measured:
            continue
        fitting = [(space, *found) for space in kept if (found := _place(told, space)) is not None]
        best = max((shared for *_, shared in fitting), default=0)
        fitting = [(space, place) for space, place, shared in fitting if shared == best]
        if len(fitting) != 1:
            continue
        [(space, place)] = fitting
        here, forecasts = place >= 0, dict(space.forecasts)
        if measured:
            times = np.where(here, told.forecasts[MEASURED]["time_s"][place], np.nan)
            facts, forecasts[MEASURED] = {"measured_s": times}, {"time_s": times}
            what = "Measured times"
        else:
            facts, what = {"kept": np.array(["no", "yes"], object)[here.astype(int)]}, "Configurations"
            kept.remove(told)
        kept[kept.index(space)] = replace(space, facts={**space.facts, **facts}, forecasts=forecasts)
        notes.append(
            f"{what} of {told.source} stand beside the predictions of {space.kernel} on {space.gpu}."
        )
    return kept


def _place(told: Space, space: Space) -> tuple[np.ndarray, int] | None:
    """Find where each configuration of a predicted space lies in another, -1 where it does not.

    Also tells how many parameters both have. None where the other is of another GPU, leaves parameters of the
    space open, or has no configuration of it.
    """
    fact = "measured_s" if told.forecasts else "kept"
    if not set(space.forecasts) - {MEASURED} or fact in space.facts:
        return None
    names = {*told.parameters, *told.fixed}
    if told.gpu not in (space.gpu, NO_GPU) or not set(space.parameters) <= names:
        return None
    both = {name: values for name in names if (values := space.parameter(name)) is not None}
    if not set(told.parameters) <= set(both):
        return None
    known = {name: values for name in both if (values := told.parameter(name)) is not None}
    place = _match(known, both)
    return (place, len(both)) if place is not None and (place >= 0).any() else None

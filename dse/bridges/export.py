"""Kept configurations as files: as T1 for KTT and others, for Kernel Tuner, for Triton, as a table.

Each writer takes columns, N values of each parameter, and writes the file whole or not at all.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from dse.bridges.triton_table import config
from dse.core.files import read_json, replacing
from dse.core.space.expression import parse
from dse.data.tables import write_table
from dse.errors import DseError

Columns = Mapping[str, Sequence[Any] | np.ndarray]
Rows = frozenset[tuple[Any, ...]]

LONGEST = 3_000  # characters of a condition, roughly: `dse.core.space.expression` reads at most 4,000


def table(parameters: Columns, path: str | Path) -> None:
    """Write Parquet, CSV or JSON, by the suffix. DseError as `dse.data.tables.write_table`."""
    write_table(path, {name: np.asarray(values) for name, values in parameters.items()})


def t1(parameters: Columns, path: str | Path, problem: str | Path | None = None) -> None:
    """Write a tuning problem in T1 form whose values and conditions leave exactly these configurations.

    Everything except the ConfigurationSpace is copied from the T1 file `problem`. Without one there is no
    kernel: T1's required fields have the smallest readable values, to be replaced.

    **Raises:** DseError if a parameter is no number, or `problem` cannot be read or names other parameters.
    """
    rows = _rows(parameters)
    for name, values in zip(parameters, zip(*rows, strict=True), strict=True):
        for value in values:
            if not isinstance(value, Real):
                raise DseError(f"{path}: {name}: found {value!r}, expected a number")
    content = _skeleton(Path(path).stem) if problem is None else _problem(problem, parameters)
    values = {
        name: sorted(set(column)) for name, column in zip(parameters, zip(*rows, strict=True), strict=True)
    }
    content["ConfigurationSpace"] = {
        "TuningParameters": [
            {
                "Name": name,
                "Type": "int" if all(isinstance(value, int) for value in choices) else "float",
                "Values": str(choices),  # T1 has Python source here
                "Default": first,
            }
            for (name, choices), first in zip(values.items(), rows[0], strict=True)
        ],
        "Conditions": [
            {"Expression": text, "Parameters": sorted(parse(text, str(path)).names)}
            for text in conditions(frozenset(rows), values)
        ],
    }
    _write(path, json.dumps(content, indent=2) + "\n")


def kernel_tuner(parameters: Columns, path: str | Path) -> None:
    """Write Python source with `tune_params` and `restrictions` for `tune_kernel`; or JSON.

    The JSON is laid out as Kernel Tuner's cache files are, without times: `Searchspace(None, None, None,
    from_cache=json.load(...))` is the space of these configurations.

    **Raises:** DseError for another suffix.
    """
    rows = _rows(parameters)
    tune_params = {
        name: list(dict.fromkeys(column))
        for name, column in zip(parameters, zip(*rows, strict=True), strict=True)
    }
    match Path(path).suffix.lower():
        case ".json":
            content = {
                "tune_params_keys": list(parameters),
                "tune_params": tune_params,
                "cache": {",".join(map(str, row)): dict(zip(parameters, row, strict=True)) for row in rows},
            }
            _write(path, json.dumps(content, indent=0) + "\n")
        case ".py":
            arguments = ", ".join(parameters)
            lines = [
                '"""Configurations worth measuring: `tune_params` and `restrictions` for tune_kernel."""',
                "",
                f"tune_params = {tune_params!r}",
                "KEPT = {",
                *(f"    {row!r}," for row in rows),
                "}",
                "",
                "",
                f"def kept({arguments}):",
                f"    return ({arguments},) in KEPT",
                "",
                "",
                "restrictions = [kept]",
            ]
            _write(path, "\n".join(lines) + "\n")
        case suffix:
            raise DseError(f"{path}: suffix: found {suffix or 'none'}, expected .py or .json")


def triton(parameters: Columns, path: str | Path) -> None:
    """Write Python source with `configs` for `triton.autotune`, num_warps and the like as keywords."""
    lines = ["import triton", "", "configs = ["]
    lines += [f"    {config(dict(zip(parameters, row, strict=True)))}," for row in _rows(parameters)]
    _write(path, "\n".join([*lines, "]"]) + "\n")


FORMS = {"t1": t1, "kernel-tuner": kernel_tuner, "triton": triton, "table": table}


def conditions(rows: Rows, values: Mapping[str, Sequence[Any]], longest: int = LONGEST) -> list[str]:
    """Return conditions that leave exactly these rows of all combinations of `values`; each readable."""
    return list(_conditions(rows, list(values.items()), "", longest))


def _conditions(
    rows: Rows, values: Sequence[tuple[str, Sequence[Any]]], unless: str, longest: int
) -> Iterator[str]:
    """Return the conditions on the last parameters, for rows whose first ones do not fulfil `unless`.

    A condition that is too long is split by values.
    """
    text = _text(rows, values)
    if not text:
        return
    if len(unless) + len(text) <= longest:
        yield unless + text
        return
    (name, all_values), *later = values
    groups = _groups(rows)
    used = {value for group in groups.values() for value in group}
    for few in _batches([value for value in all_values if value not in used], 50):
        yield f"{unless}{name} not in ({', '.join(map(repr, few))},)"
    for tails, group in groups.items() if later else ():
        for few in _batches(group, 8):
            condition = f"{unless}{name} not in ({', '.join(map(repr, few))},) or "
            yield from _conditions(tails, later, condition, longest)


def _batches(values: Sequence[Any], most: int) -> Iterator[Sequence[Any]]:
    return (values[start : start + most] for start in range(0, len(values), most))


def _text(rows: Rows, values: Sequence[tuple[str, Sequence[Any]]]) -> str:
    """Write one condition; empty if it holds for all."""
    if not values:
        return ""
    (name, all_values), *later = values
    either = []
    for tails, group in _groups(rows).items():
        both = [text for text in (_among(name, group, all_values), _text(tails, later)) if text]
        if not both:
            return ""
        either.append(" and ".join(f"({text})" if " or " in text else text for text in both))
    return " or ".join(either)


def _groups(rows: Rows) -> dict[Rows, list[Any]]:
    """Group the first parameter's values by the tails of their rows."""
    follow: dict[Any, set[tuple[Any, ...]]] = defaultdict(set)
    for first, *tail in rows:
        follow[first].add(tuple(tail))
    groups: dict[Rows, list[Any]] = defaultdict(list)
    for first in sorted(follow):
        groups[frozenset(follow[first])].append(first)
    return dict(groups)


def _among(name: str, values: Sequence[Any], all_values: Sequence[Any]) -> str:
    """Write that a parameter has one of `values`; empty if these are all."""
    if len(values) == len(all_values):
        return ""
    return f"{name} == {values[0]!r}" if len(values) == 1 else f"{name} in ({', '.join(map(repr, values))})"


def _rows(parameters: Columns) -> list[tuple[Any, ...]]:
    """Return configurations as plain Python values, each once, in order."""
    columns = [
        values.tolist() if isinstance(values, np.ndarray) else list(values) for values in parameters.values()
    ]
    rows = list(dict.fromkeys(zip(*columns, strict=True)))
    if not rows:
        raise DseError("configurations: found none, expected at least one")
    return rows


def _problem(path: str | Path, parameters: Columns) -> dict[str, Any]:
    try:
        content = read_json(Path(path))
        names = [parameter["Name"] for parameter in content["ConfigurationSpace"]["TuningParameters"]]
    except (KeyError, TypeError) as error:
        raise DseError(f"{path}: cannot read: {error!r}, expected a T1 file") from None
    if sorted(names) != sorted(parameters):
        raise DseError(
            f"{path}: TuningParameters: found {', '.join(names)}, expected {', '.join(parameters)}"
        )
    return content


def _skeleton(name: str) -> dict[str, Any]:
    return {
        "General": {"BenchmarkName": name, "OutputFormat": "JSON"},
        "ConfigurationSpace": {},
        "KernelSpecification": {
            "Language": "CUDA",
            "KernelName": name,
            "LocalSize": {"X": 1},
            "ProblemSize": [1],
        },
    }


def _write(path: str | Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")

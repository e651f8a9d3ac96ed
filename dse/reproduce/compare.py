"""All tables and worked examples of the papers compared with ours."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from importlib import import_module
from types import ModuleType

from dse.core.precision import in_64_bits
from dse.errors import DseError, one_of
from dse.reproduce.papers import Row, reasons

PAPERS = ("hong-kim", "baghsorkhi", "kothapalli", "teg", "lemeire")  # by year


def paper(name: str) -> ModuleType:
    """Import a paper's module, with its TITLE and TABLES. DseError for an unknown name."""
    if name not in PAPERS:
        raise DseError(f"paper: found {name!r}, {one_of(name, PAPERS)}")
    return import_module(f"dse.reproduce.{name.replace('-', '_')}")


def compare(papers: Iterable[str] = PAPERS) -> dict[str, list[Row]]:
    """Compute the rows of each paper in double precision, each with its reason if it has one."""
    return {name: rows_of(name, paper(name).TABLES) for name in papers}


def rows_of(name: str, tables: Iterable[Callable[[], Iterable[Row]]]) -> list[Row]:
    """Compute the rows of some tables of a paper, as `compare` does."""
    with in_64_bits():
        return [_with_reason(name, row) for rows in tables for row in rows()]


def _with_reason(name: str, row: Row) -> Row:
    reason = reasons(name).get((row.table, row.what))
    return replace(row, reason=reason) if reason else row


def problems(papers: Mapping[str, Iterable[Row]]) -> list[str]:
    """Describe the problem of each row that has one, in a line."""
    return [
        f"{name}: {row.table}: {row.what}: {row.problem}"
        for name, rows in papers.items()
        for row in rows
        if row.problem
    ]

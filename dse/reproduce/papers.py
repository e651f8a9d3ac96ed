"""Printed numbers of the papers, and their comparison with ours."""

import csv
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.resources import files
from types import ModuleType
from typing import Any, Literal

from dse.core.precision import in_64_bits
from dse.errors import DseError, check_names

Kind = Literal["model", "equation", "look-up", "declared", "arithmetic"]

# Origin of our number; the strongest evidence for `dse` first.
KINDS: dict[Kind, str] = {
    "model": "computed by a model, the simulator or the occupancy from the paper's inputs",
    "equation": "as above, compared with the paper's equation, evaluated by us, since it prints no number",
    "look-up": "a fact of our GPUs or models, often from this very table, or a product of such facts",
    "declared": "a declaration of our model",
    "arithmetic": "computed from other printed numbers, without a model",
}

_DATA = files("dse.reproduce") / "data"


@cache
def table(name: str) -> list[dict[str, str]]:
    """Read a table as printed; lines that start with # state its source."""
    lines = (_DATA / f"{name}.csv").read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


@cache
def text(paper: str) -> dict[str, Any]:
    """Read the numbers of a paper's running text."""
    return tomllib.loads((_DATA / "text.toml").read_text(encoding="utf-8"))[paper]


@dataclass(frozen=True)
class Reason:
    """Reason of a difference, with the only value of ours that it explains."""

    ours: str  # with the digits to check
    why: str


@cache
def reasons(paper: str) -> dict[tuple[str, str], Reason]:
    """Read the reasons of a paper's rows, by table and row. DseError if a row has two."""
    by_case: dict[tuple[str, str], Reason] = {}
    for line in table("differences"):
        if line["paper"] == paper:
            key = line["table"], line["what"]
            if key in by_case:
                raise DseError(f"differences.csv: {paper}, {', '.join(key)}: found two reasons, expected one")
            by_case[key] = Reason(line["ours"], line["why"])
    return by_case


def rounds_to(value: float | str, printed: str) -> bool:
    """Whether a value, rounded to the places of `printed`, equals it; words have to be equal."""
    if isinstance(value, str):
        return value == printed
    places = len(printed.partition(".")[2])
    return abs(value - float(printed)) <= 0.5 * 10.0**-places * (1 + 1e-9)


@dataclass(frozen=True)
class Row:
    """One number, or word, of a paper, and ours."""

    table: str
    what: str
    paper: str  # as printed
    ours: float | str
    kind: Kind
    reason: Reason | None = None  # of a difference

    @property
    def agrees(self) -> bool:
        """Whether ours, rounded like the paper's, equals it."""
        return rounds_to(self.ours, self.paper)

    @property
    def percent(self) -> float | None:
        """Excess of ours over the paper's, in percent; None for words and where the paper has 0."""
        if isinstance(self.ours, str) or not float(self.paper):
            return None
        return 100.0 * (self.ours / float(self.paper) - 1.0)

    @property
    def explained(self) -> bool:
        """Whether ours differs for a reason, and has the value that the reason states."""
        return not self.agrees and self.reason is not None and rounds_to(self.ours, self.reason.ours)

    @property
    def problem(self) -> str | None:
        """The problem, if any: a difference without a reason, or a reason that does not apply."""
        if self.agrees:
            return self.reason and f"found the paper's {self.paper}, but a reason for {self.reason.ours}"
        if self.explained:
            return None
        allowed = f"{self.paper} or, for a reason, {self.reason.ours}" if self.reason else self.paper
        return f"found {self.ours}, expected {allowed}"


def cells(row: Row) -> dict[str, Any]:
    """Return a row as commands and pages show it."""
    return {
        "table": row.table,
        "what": row.what,
        "printed": row.paper,
        "ours": row.ours,
        "difference_percent": row.percent,
        "agrees": row.agrees,
        "why": row.reason.why if row.reason and row.explained else "",
        "kind": row.kind,
    }


def sums(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Count the rows of each kind: all, agreeing, differing with a reason, and others."""
    rows = list(rows)
    return [
        {
            "kind": kind,
            "numbers": len(of_kind),
            "agree": sum(row.agrees for row in of_kind),
            "differ_with_reason": sum(row.explained for row in of_kind),
            "differ_without": sum(not (row.agrees or row.explained) for row in of_kind),
            "meaning": meaning,
        }
        for kind, meaning in KINDS.items()
        if (of_kind := [row for row in rows if row.kind == kind])
    ]


PAPERS = ("hong-kim", "baghsorkhi", "kothapalli", "teg", "lemeire")  # by year


def paper(name: str) -> ModuleType:
    """Import a paper's module, with its TITLE and TABLES. DseError for an unknown name."""
    check_names("paper", PAPERS, name)
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

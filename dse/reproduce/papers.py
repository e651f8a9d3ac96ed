"""Reads what the papers print, and says how a number of ours compares with one of theirs."""

import csv
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from dse.errors import DseError

Kind = Literal["model", "equation", "look-up", "declared", "arithmetic"]

# How ours comes about, what tells most of `dse` first.
KINDS: dict[Kind, str] = {
    "model": "a model, the simulator or the occupancy works it out from what the paper gives",
    "equation": "so too, but the paper prints no number: in its column stands its equation, evaluated by us",
    "look-up": "a fact of our GPUs or models, often taken from this very table, or a product of such facts",
    "declared": "what our model declares of itself",
    "arithmetic": "computed from other numbers that the paper prints: no model runs",
}

_DATA = files("dse.reproduce") / "data"


@cache
def table(name: str) -> list[dict[str, str]]:
    """Read a table as printed; its lines that start with # say where it is from."""
    lines = (_DATA / f"{name}.csv").read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


@cache
def text(paper: str) -> dict[str, Any]:
    """Read the numbers of a paper's running text."""
    return tomllib.loads((_DATA / "text.toml").read_text(encoding="utf-8"))[paper]


@dataclass(frozen=True)
class Reason:
    """Reason of a difference, with the value of ours that it explains, and no other."""

    ours: str  # to the digit that is checked
    why: str


@cache
def reasons(paper: str) -> dict[tuple[str, str], Reason]:
    """Read the reasons of a paper's rows, by table and row. DseError where a row has two."""
    by_case: dict[tuple[str, str], Reason] = {}
    for line in table("differences"):
        if line["paper"] == paper:
            key = line["table"], line["what"]
            if key in by_case:
                raise DseError(f"differences.csv: {paper}, {', '.join(key)}: found two reasons, expected one")
            by_case[key] = Reason(line["ours"], line["why"])
    return by_case


def rounds_to(value: float | str, printed: str) -> bool:
    """Whether a value, rounded to as many places as `printed` has, is `printed`; words have to be equal."""
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
    reason: Reason | None = None  # they differ

    @property
    def agrees(self) -> bool:
        """Whether ours, rounded as the paper's is, is the paper's."""
        return rounds_to(self.ours, self.paper)

    @property
    def percent(self) -> float | None:
        """Excess of ours over the paper's, in percent; None for words and where the paper has 0."""
        if isinstance(self.ours, str) or not float(self.paper):
            return None
        return 100.0 * (self.ours / float(self.paper) - 1.0)

    @property
    def explained(self) -> bool:
        """Whether a reason says why ours differs, and ours is what that reason says it is."""
        return not self.agrees and self.reason is not None and rounds_to(self.ours, self.reason.ours)

    @property
    def problem(self) -> str | None:
        """Tell what is wrong: a difference without a reason of its own, or a reason that does not apply."""
        if self.agrees:
            return self.reason and f"found the paper's {self.paper}, but a reason for {self.reason.ours}"
        if self.explained:
            return None
        allowed = f"{self.paper} or, for a reason, {self.reason.ours}" if self.reason else self.paper
        return f"found {self.ours}, expected {allowed}"


def cells(row: Row) -> dict[str, Any]:
    """Give a row as commands and pages show it."""
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
    """Count the rows of each kind: all, rows that agree, that differ with a reason, and the others."""
    rows = list(rows)
    return [
        {
            "kind": kind,
            "numbers": len(some),
            "agree": sum(row.agrees for row in some),
            "differ_with_reason": sum(row.explained for row in some),
            "differ_without": sum(not (row.agrees or row.explained) for row in some),
            "meaning": meaning,
        }
        for kind, meaning in KINDS.items()
        if (some := [row for row in rows if row.kind == kind])
    ]

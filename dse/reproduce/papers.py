"""What the papers print, and how a number of ours compares with one of theirs."""

import csv
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

_DATA = files("dse.reproduce") / "data"


@cache
def table(name: str) -> list[dict[str, str]]:
    """A table as printed; lines that start with # say where it is from."""
    lines = (_DATA / f"{name}.csv").read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


@cache
def text(paper: str) -> dict[str, Any]:
    """Numbers of a paper's running text."""
    return tomllib.loads((_DATA / "text.toml").read_text(encoding="utf-8"))[paper]


@dataclass(frozen=True)
class Row:
    """One number, or word, of a paper, and ours."""

    table: str
    what: str
    paper: str  # as printed
    ours: float | str
    why: str = ""  # they differ

    @property
    def agrees(self) -> bool:
        """Whether ours, rounded as the paper's is, is the paper's."""
        if isinstance(self.ours, str):
            return self.ours == self.paper
        places = len(self.paper.partition(".")[2])
        return abs(self.ours - float(self.paper)) <= 0.5 * 10.0**-places * (1 + 1e-9)

    @property
    def percent(self) -> float | None:
        """How much ours is more than the paper's."""
        if isinstance(self.ours, str) or not float(self.paper):
            return None
        return 100.0 * (self.ours / float(self.paper) - 1.0)


def cells(row: Row) -> dict[str, Any]:
    """A row as commands and pages show it."""
    return {
        "table": row.table,
        "what": row.what,
        "printed": row.paper,
        "ours": row.ours,
        "difference_percent": row.percent,
        "agrees": row.agrees,
        "why": "" if row.agrees else row.why,
    }

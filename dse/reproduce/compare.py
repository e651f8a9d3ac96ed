"""All tables and worked examples of the papers beside ours, paper by paper."""

from collections.abc import Iterable
from importlib import import_module
from types import ModuleType

from dse.errors import DseError
from dse.precision import in_64_bits
from dse.reproduce.papers import Row

PAPERS = ("hong-kim", "baghsorkhi", "kothapalli", "teg", "lemeire")  # by year


def paper(name: str) -> ModuleType:
    """A paper's module, with its TITLE and TABLES. DseError where there is none of that name."""
    if name not in PAPERS:
        raise DseError(f"paper: found {name!r}, expected one of {', '.join(PAPERS)}")
    return import_module(f"dse.reproduce.{name.replace('-', '_')}")


def compare(papers: Iterable[str] = PAPERS) -> dict[str, list[Row]]:
    """Rows of each paper, worked out in double precision."""
    modules = {name: paper(name) for name in papers}
    with in_64_bits():
        return {name: [row for each in module.TABLES for row in each()] for name, module in modules.items()}

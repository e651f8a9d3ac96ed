"""The folders of the data shipped with the package."""

from pathlib import Path
from typing import Literal

_PACKAGE = Path(__file__).resolve().parents[1]


def folder(name: Literal["gpus", "kernels"]) -> Path:
    """Return the folder of all GPUs or kernels: inside an installed package, beside it in a checkout."""
    installed = _PACKAGE / f"_{name}"
    return installed if installed.is_dir() else _PACKAGE.parent / name

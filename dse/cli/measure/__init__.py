"""`dse measure`: what only a GPU tells, by microbenchmarks and by timing our kernels on it."""

import os

import typer

from dse.cli.measure import build, gpu, space, store
from dse.cli.options import CommandGroup

app = typer.Typer(name="measure", cls=CommandGroup, rich_markup_mode="rich", no_args_is_help=True)
for command in (gpu, build, space, store):
    app.add_typer(command.app)


@app.callback()
def measure() -> None:
    """Measure a GPU, and kernels on it. Takes the extra `cuda` and NVIDIA's driver; no nvcc."""
    # Where JAX could use the GPU, it would take most of its memory.
    os.environ["JAX_PLATFORMS"] = "cpu"

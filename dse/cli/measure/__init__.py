"""`dse measure`: microbenchmarks of a GPU, and times of kernels on it."""

import os

import typer

from dse.cli.measure import build, gpu, space, store
from dse.cli.options import CommandGroup

app = typer.Typer(name="measure", cls=CommandGroup, rich_markup_mode="rich", no_args_is_help=True)
for command in (gpu, build, space, store):
    app.add_typer(command.app)


@app.callback()
def measure() -> None:
    """Measure a GPU, and kernels on it. Needs the extra `cuda` and NVIDIA's driver; no nvcc."""
    # On the GPU, JAX would allocate most of its memory.
    os.environ["JAX_PLATFORMS"] = "cpu"

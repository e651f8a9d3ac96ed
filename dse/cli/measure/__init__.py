"""`dse measure`: microbenchmarks of a GPU, and times of kernels on it."""

import os

from dse.cli.measure import build, gpu, space, store
from dse.cli.options import App, CommandGroup

app = App(name="measure", cls=CommandGroup, no_args_is_help=True)
for command in (gpu.gpu, build.build, space.space, store.store):
    app.add_typer(command)


@app.callback()
def measure() -> None:
    """Measure a GPU, and kernels on it. Needs the extra `cuda` and NVIDIA's driver; no nvcc."""
    # On the GPU, JAX would allocate most of its memory.
    os.environ["JAX_PLATFORMS"] = "cpu"

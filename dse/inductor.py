"""PyTorch's Inductor, its candidates cut to the best before they are compiled: `import dse.inductor`.

    torch._inductor.config.inductor_choices_class = lambda: dse.inductor.choices("h100-sxm", first=3)
    torch._inductor.config.lookup_table.table = dse.inductor.table("h100-sxm", "shapes.csv")

A table is used by `torch._inductor.lookup_table.LookupTableChoices` in the place of `choices`; `dse table
inductor` writes it to a file where neither PyTorch nor a GPU is.
"""

import json
from pathlib import Path
from typing import Any

from dse.bridges import inductor
from dse.bridges.calls import read, table_of
from dse.bridges.inductor import FIRST, choices
from dse.hardware.gpus import GpuFile, load

__all__ = ["choices", "table"]


def table(
    gpu: str | Path | GpuFile, shapes: str | Path, first: int = FIRST, device: str = ""
) -> dict[str, list[dict[str, Any]]]:
    """Make a lookup table of the products in a list or a log, see `dse.bridges.calls`.

    For each product the library's kernel and the `first` configurations; with `first` 1 that one alone, so
    that nothing is timed. With `device`, as torch.cuda.get_device_name() says, it is for that device alone.

    **Raises:** DseError for a file that cannot be read, or an operation without a template.
    """
    file = gpu if isinstance(gpu, GpuFile) else load(gpu)
    return json.loads(inductor.text(table_of(file, read(Path(shapes)), first, device)))

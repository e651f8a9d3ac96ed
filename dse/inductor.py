"""Keep only the best candidates of PyTorch's Inductor before they are compiled: `import dse.inductor`.

    torch._inductor.config.inductor_choices_class = lambda: dse.inductor.choices("h100-sxm", first=3)
    torch._inductor.config.lookup_table.table = dse.inductor.table("h100-sxm", "shapes.csv")

`torch._inductor.lookup_table.LookupTableChoices` uses a table instead of `choices`; `dse table inductor`
writes it to a file, without PyTorch or a GPU.
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
    """Return a lookup table for the products in a list or a log, see `dse.bridges.calls`.

    Each product gets the library's kernel and the `first` configurations; with `first` 1 only that one, so
    that nothing is timed. `device`, a torch.cuda.get_device_name(), restricts the table to that device.

    **Raises:** DseError for an unreadable file, or an operation without a template.
    """
    return json.loads(inductor.text(table_of(load(gpu), read(Path(shapes)), first, device)))

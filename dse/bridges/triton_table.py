"""A table as Python source: `configs`, a `triton.Config` for each size, and `nearest(...)` by size."""

from numbers import Real

from dse.bridges.tables import BestConfigurations, Row
from dse.bridges.triton import OPTIONS
from dse.models.matrix.configuration import AMD_PARAMETERS

MAY_BE_UNSET = ("num_stages", "maxnreg", *AMD_PARAMETERS)


def text(table: BestConfigurations) -> str:
    """The content of the file: by the sizes that are numbers, the first configuration of each."""
    numbers = [name for name in table.sizes if isinstance(table.problems[0][0][name], Real)]
    sizes = ", ".join(numbers)
    lines = []
    for row, *_ in table.problems:
        size = tuple(row[name] for name in numbers)
        lines.append(f"    {size!r}: {config({name: row[name] for name in table.parameters})},")
    return "\n".join(
        [
            f'"""The best configuration by {sizes}, as predicted."""',
            "",
            "import math",
            "",
            "import triton",
            "",
            "configs = {",
            *lines,
            "}",
            "",
            "",
            f"def nearest({sizes}):",
            '    """Find the configuration of the nearest size, by the ratios of the sizes."""',
            f"    wanted = ({sizes},)",
            "    far = lambda size: sum(abs(math.log(a / b)) for a, b in zip(size, wanted))",
            "    return configs[min(configs, key=far)]",
            "",
        ]
    )


def config(row: Row) -> str:
    """Write one configuration, with num_warps and the like as keywords; what is not set, 0, is left out."""
    row = {name: value for name, value in row.items() if value or name not in MAY_BE_UNSET}
    arguments = {name: value for name, value in row.items() if name not in OPTIONS}
    options = "".join(f", {name}={row[name]!r}" for name in OPTIONS if name in row)
    return f"triton.Config({arguments!r}{options})"

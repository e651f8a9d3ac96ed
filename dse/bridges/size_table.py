"""The best configuration for each problem size, as a file for programs: JSON, CSV, or Python for Triton."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from dse.bridges.export import OPTIONS
from dse.errors import DseError, one_of

FORMATS = ("json", "csv", "triton")
Row = Mapping[str, Any]


def text(rows: Sequence[Row], sizes: Sequence[str], parameters: Sequence[str], style: str) -> str:
    """Write rows, of which the columns `sizes` say for what and `parameters` which configuration.

    JSON is a list of objects with `size`, `configuration` and `time_s`; CSV has the same side by side; Python
    source has `configs`, a `triton.Config` for each size, and `nearest(...)` finds that of the nearest.

    **Raises:** DseError for another style.
    """
    if style not in _WRITERS:
        raise DseError(f"format: found {style!r}, {one_of(style, FORMATS)}")
    return _WRITERS[style](rows, tuple(sizes), tuple(parameters))


def _json(rows: Sequence[Row], sizes: tuple[str, ...], parameters: tuple[str, ...]) -> str:
    table = [
        {
            "size": {name: row[name] for name in sizes},
            "configuration": {name: row[name] for name in parameters},
            "time_s": row["time_s"],
        }
        for row in rows
    ]
    return json.dumps(table, indent=1) + "\n"


def _csv(rows: Sequence[Row], sizes: tuple[str, ...], parameters: tuple[str, ...]) -> str:
    names = (*sizes, *parameters, "time_s")
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([row[name] for name in names] for row in rows)
    return out.getvalue()


def _triton(rows: Sequence[Row], sizes: tuple[str, ...], parameters: tuple[str, ...]) -> str:
    lines = []
    for row in rows:
        own = {name: row[name] for name in parameters if name not in OPTIONS}
        options = "".join(f", {name}={row[name]!r}" for name in parameters if name in OPTIONS)
        lines.append(f"    {tuple(row[name] for name in sizes)!r}: triton.Config({own!r}{options}),")
    return "\n".join(
        [
            f'"""The best configuration by {", ".join(sizes)}, as predicted."""',
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
            f"def nearest({', '.join(sizes)}):",
            '    """Find the configuration of the nearest size, by the ratios of the sizes."""',
            f"    wanted = ({', '.join(sizes)},)",
            "    far = lambda size: sum(abs(math.log(a / b)) for a, b in zip(size, wanted))",
            "    return configs[min(configs, key=far)]",
            "",
        ]
    )


_WRITERS = {"json": _json, "csv": _csv, "triton": _triton}

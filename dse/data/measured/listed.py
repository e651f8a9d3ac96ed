"""Restrict a kernel's tuning space to the configurations in a file, such as a command's `-o` output."""

from dataclasses import replace
from pathlib import Path

from dse.core.space.listed import AllowedRows
from dse.core.space.space import Space
from dse.data.measured.formats import FORMATS, File, read
from dse.data.table import as_integers
from dse.errors import DseError
from dse.kernels.description import Description

MOST = 1_000_000  # configurations in a file


def is_table(path: Path) -> bool:
    """Whether a file is a table of configurations, rather than a T1 problem."""
    try:
        file = File.of(path)
        return not file.is_json or any(form.fits(file) for form in FORMATS)
    except (DseError, ValueError):
        return path.suffix.lower() != ".json"


def with_configurations(description: Description, path: Path) -> Description:
    """Restrict a kernel's space to the configurations of a file with the kernel's own parameter names.

    If the file has a column `kernel`, only rows of this kernel count. Parameters missing in the file keep
    their values, and the kernel's constraints still apply.

    **Raises:** DseError if it cannot be read, or has none of the kernel's parameters.
    """
    table = read(path)
    if "kernel" in table.names:
        of_kernel = table.texts("kernel") == description.name
        if not of_kernel.any():
            actual = ", ".join(sorted(set(table.texts("kernel").tolist())))
            table.fail("kernel", f"found {actual}, expected {description.name}")
        table = replace(table, table=table.table.filter(of_kernel))
    names = [name for name in description.space.values if name in table.names]
    if not names:
        table.fail("columns", f"found none of {', '.join(description.space.values)}, expected them")
    columns = [table.complete(name) for name in names]
    rows = sorted(set(zip(*(as_integers(column).tolist() for column in columns), strict=True)))
    if len(rows) > MOST:
        table.fail("rows", f"found {len(rows):,} configurations, expected at most {MOST:,}")
    values = dict(description.space.values)
    values |= {
        name: tuple(sorted(set(column))) for name, column in zip(names, zip(*rows, strict=True), strict=True)
    }
    # One list for each prefix of the parameters, so that the whole product is never enumerated.
    prefixes = (tuple(names[:count]) for count in range(2, len(names) + 1))
    listed = tuple(
        AllowedRows(prefix, tuple(dict.fromkeys(row[: len(prefix)] for row in rows))) for prefix in prefixes
    )
    return replace(description, space=Space(values, (*description.space.constraints, *listed)))

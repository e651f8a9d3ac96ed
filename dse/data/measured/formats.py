"""The registry of formats of measured times: a row of FORMATS and a reader module each."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from dse.data import json_lines
from dse.data.measured import kernel_tuner, ktt, nsight, t4
from dse.data.measured.file import File
from dse.data.table import PARQUET, Table
from dse.errors import DseError


class MeasuredFormat(NamedTuple):
    """A format: its detection and its reader."""

    name: str
    sign: str | Callable[[File], bool]  # a key at the top of a JSON object, or a test of the file
    read: Callable[[File], Table]

    def fits(self, file: File) -> bool:
        """Whether the file has this format."""
        if isinstance(self.sign, str):
            return file.is_json and self.sign in file.json
        return self.sign(file)


def _is_parquet(file: File) -> bool:
    return file.content.startswith(PARQUET) or file.path.suffix.lower() == ".parquet"


def _is_report(file: File) -> bool:
    return file.path.suffix.lower() in (".ncu-rep", ".ncu-repz")


FORMATS = (  # the first that fits wins
    MeasuredFormat("Parquet", _is_parquet, lambda file: Table.of_parquet(file.path, file.content)),
    MeasuredFormat("Nsight Compute's report", _is_report, lambda file: nsight.read_report(file.path)),
    MeasuredFormat(
        "dse's journal",
        lambda file: json_lines.is_journal(file.text),
        lambda file: Table.of_rows(file.path, json_lines.rows(file.path, file.text)),
    ),
    MeasuredFormat("Kernel Tuner", "cache", lambda file: kernel_tuner.read(file.path, file.json)),
    MeasuredFormat("KTT", "Results", lambda file: ktt.read(file.path, file.json)),
    MeasuredFormat("T4", "results", lambda file: t4.read(file.path, file.json)),
    MeasuredFormat(
        "Nsight Compute",
        lambda file: nsight.header(file.text) is not None,
        lambda file: nsight.read(file.path, file.text),
    ),
    MeasuredFormat("JSON rows", lambda file: file.is_list, lambda file: Table.of_rows(file.path, file.json)),
    MeasuredFormat("CSV", lambda file: not file.is_json, lambda file: Table.of_csv(file.path, file.text)),
)


def read(path: Path) -> Table:
    """Read a file in any of the FORMATS.

    **Raises:** DseError, one line, if it cannot be read or has another format.
    """
    try:
        file = File.of(path)
        for form in FORMATS:
            if form.fits(file):
                return form.read(file)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise DseError(f"{path}: cannot read: {str(error).partition(chr(10))[0]}") from None
    *first, last = [f"{form.sign!r} ({form.name})" for form in FORMATS if isinstance(form.sign, str)]
    actual = ", ".join(file.json) or "nothing"
    raise DseError(f"{path}: top level: found {actual}, expected {', '.join(first)} or {last}")

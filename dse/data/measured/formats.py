"""The formats of files of rows and measured times: a row of FORMATS each, with its detection and reader."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from dse.core.files import parse_json, parse_json_lines
from dse.data.measured import kernel_tuner, ktt, nsight, t4
from dse.data.safe_readers import MOST_BYTES, PARQUET, csv_table, parquet, unzipped
from dse.data.table import Table
from dse.errors import DseError, printable

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_OF_A_JOURNAL = ("parameters", "seconds", "took_s")


@dataclass(frozen=True)
class File:
    """A file before its format is known: its content, unzipped, and decoded on demand."""

    path: Path
    content: bytes

    @classmethod
    def of(cls, path: Path, most: int = MOST_BYTES) -> "File":
        """Read a file, gzipped or not; see `dse.data.safe_readers.unzipped`."""
        return cls(path, unzipped(path, most))

    @cached_property
    def text(self) -> str:
        """The content decoded as UTF-8, or UTF-16 with a byte order mark; control characters are escaped."""
        text = self.content.decode("utf-16" if self.content.startswith(_UTF16) else "utf-8-sig")
        return _CONTROL.sub(lambda match: printable(match[0]), text)

    @property
    def is_json(self) -> bool:
        """Whether the content begins like a JSON object."""
        return self.text.lstrip().startswith("{")

    @property
    def is_list(self) -> bool:
        """Whether the content begins like a JSON list."""
        return self.text.lstrip().startswith("[")

    @cached_property
    def json(self) -> Any:
        """The JSON object or list.

        **Raises:** DseError if the content is neither JSON nor an unclosed Kernel Tuner cache.
        """
        try:
            return parse_json(self.text, str(self.path))
        except DseError:
            content = kernel_tuner.closed(self.text)
            if content is None:
                raise
            return content


class Format(NamedTuple):
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


def _is_lines(file: File) -> bool:
    """Whether a file has JSON lines, by its suffix or a first line of the journal of `dse tune`."""
    first = file.text.partition("\n")[0]
    journal = first.startswith("{") and '"parameters": {' in first and '"seconds": ' in first
    return journal or file.path.suffix.lower() == ".jsonl"


def _lines(file: File) -> Table:
    """Read JSON lines: rows, or measurements of `dse tune`; one that failed has no time."""
    lines = enumerate(parse_json_lines(file.text, str(file.path)), 1)
    return Table.of_rows(file.path, (_line(line, number) for number, line in lines))


def _line(line: Any, number: int) -> Any:
    if not isinstance(line, dict) or not isinstance(line.get("parameters"), dict):
        return line
    seconds = line.get("seconds")
    about = {name: value for name, value in line.items() if name not in _OF_A_JOURNAL}
    status = {"status": "failed" if seconds is None else "ok", "measured_s": seconds}
    return line["parameters"] | status | about | {"number": number}


ROWS = (  # the first that fits wins
    Format("JSON lines", _is_lines, _lines),
    Format("JSON rows", lambda file: file.is_list, lambda file: Table.of_rows(file.path, file.json)),
    Format(
        "CSV", lambda file: not file.is_json, lambda file: Table(file.path, *csv_table(file.path, file.text))
    ),
)
FORMATS = (
    Format("Parquet", _is_parquet, lambda file: Table(file.path, parquet(file.path, file.content))),
    Format("Nsight Compute's report", _is_report, lambda file: nsight.read_report(file.path)),
    ROWS[0],
    Format("Kernel Tuner", "cache", lambda file: kernel_tuner.read(file.path, file.json)),
    Format("KTT", "Results", lambda file: ktt.read(file.path, file.json)),
    Format("T4", "results", lambda file: t4.read(file.path, file.json)),
    Format(
        "Nsight Compute",
        lambda file: nsight.header(file.text) is not None,
        lambda file: nsight.read(file.path, file.text),
    ),
    *ROWS[1:],
)


def read(path: Path, formats: tuple[Format, ...] = FORMATS) -> Table:
    """Read a file in any of the formats.

    **Raises:** DseError, one line, if it cannot be read or has another format.
    """
    try:
        file = File.of(path)
        for form in formats:
            if form.fits(file):
                return form.read(file)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise DseError(f"{path}: cannot read: {str(error).partition(chr(10))[0]}") from None
    *first, last = [f"{x.sign!r} ({x.name})" for x in formats if isinstance(x.sign, str)] or [
        "a list of rows"
    ]
    expected = f"{', '.join(first)} or {last}" if first else last
    raise DseError(f"{path}: top level: found {', '.join(file.json) or 'nothing'}, expected {expected}")

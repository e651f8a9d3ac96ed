"""Write GPU files."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from dse.core.files import replacing
from dse.hardware.gpus.facts import Fact
from dse.hardware.gpus.fields import Header
from dse.hardware.gpus.read import load
from dse.hardware.gpus.rules import DEFAULT_RULES


def write(path: Path, header: Header, records: Sequence[Fact], comments: Sequence[str] = ()) -> None:
    """Write a GPU file and read it back, so that a mistake shows here and not when it is used.

    **Raises:** DseError if it cannot be written.
    """
    with replacing(path) as temporary:
        temporary.write_text(text(header, records, comments), encoding="utf-8")
    load(path)


def text(header: Header, records: Sequence[Fact], comments: Sequence[str] = ()) -> str:
    """The content of a GPU file: comments, the header, then a table for each quantity."""
    return "\n".join(_lines(header, records, comments)) + "\n"


def _lines(header: Header, records: Sequence[Fact], comments: Sequence[str]) -> Iterator[str]:
    yield from (f"# {line}" for line in comments)
    for key, value in header.model_dump(exclude_none=True).items():
        yield f"{key} = {json.dumps(value, ensure_ascii=False)}"
    for record in records:
        if record.follows == DEFAULT_RULES.get(record.field, ()):
            continue
        yield ""
        yield f"[{record.field}]"
        for key, value in record.table().items():
            yield f"{key} = {_text(key, value)}"


def _text(key: str, value: str | float) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    digits = {"value": 6, "spread": 3}.get(key, 9)  # numbers of rules are exact in single precision
    return str(value) if key == "value" and isinstance(value, int) else f"{value:.{digits}g}"

"""Write GPU files, as `dse.gpus.read` reads them."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from dse.files import replacing
from dse.gpus.read import Fact, Header, load


def write(path: Path, header: Header, records: Sequence[Fact], comments: Sequence[str] = ()) -> None:
    """Write a GPU file and read it back: a mistake is to be found here, not by who uses it.

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
        yield ""
        yield f"[{record.field}]"
        yield f"value = {record.value}" if isinstance(record.value, int) else f"value = {record.value:.6g}"
        yield f"unit = {json.dumps(record.unit)}"
        yield f"source = {json.dumps(record.source, ensure_ascii=False)}"
        yield f"provenance = {json.dumps(record.provenance)}"
        if record.rule:
            yield f"rule = {json.dumps(record.rule, ensure_ascii=False)}"
        if record.spread is not None:
            yield f"spread = {record.spread:.3g}"

"""Write GPU files, as `dse.hardware.gpus.read` reads them."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from dse.core.files import replacing
from dse.hardware.gpus.read import Fact, Header, load
from dse.hardware.gpus.rules import LEFT_OUT


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
        if record.follows == LEFT_OUT.get(record.field, ()):
            continue
        yield ""
        yield f"[{record.field}]"
        yield from _quantity(record)
        yield f"source = {json.dumps(record.source, ensure_ascii=False)}"
        yield f"provenance = {json.dumps(record.provenance)}"
        if note := record.follows.note if record.follows else record.rule:
            yield f"rule = {json.dumps(note, ensure_ascii=False)}"
        if record.spread is not None:
            yield f"spread = {record.spread:.3g}"


def _quantity(record: Fact) -> Iterator[str]:
    """Write a value with its unit, or what it follows from."""
    if (rule := record.follows) is None:
        yield f"value = {record.value}" if isinstance(record.value, int) else f"value = {record.value:.6g}"
        yield f"unit = {json.dumps(record.unit)}"
    elif rule.key == "like":
        yield f"like = {json.dumps(rule.field)}"
        if rule.number != 1:
            yield f"times = {rule.number:.9g}"
    else:
        yield f"{rule.key} = {rule.number:.9g}"  # so that single precision loses nothing

"""A file of measured times before its format is known: unpacked, and decoded when it is asked for."""

import gzip
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dse.errors import DseError
from dse.measured import kernel_tuner

_GZIP, _UTF16 = b"\x1f\x8b", (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class File:
    """A file and its content, unzipped."""

    path: Path
    content: bytes

    @classmethod
    def of(cls, path: Path) -> "File":
        """Read a file, gzipped or not, whatever its suffix says."""
        content = path.read_bytes()
        return cls(path, gzip.decompress(content) if content.startswith(_GZIP) else content)

    @cached_property
    def text(self) -> str:
        """The content as text in UTF-8, or in UTF-16 where it says so."""
        return self.content.decode("utf-16" if self.content.startswith(_UTF16) else "utf-8-sig")

    @property
    def is_json(self) -> bool:
        """Whether the content begins as a JSON object does."""
        return self.text.lstrip().startswith("{")

    @cached_property
    def json(self) -> Any:
        """The JSON object. **Raises:** DseError if the content is none, and no cache that was left open."""
        try:
            return json.loads(self.text)
        except (ValueError, RecursionError) as error:
            content = kernel_tuner.closed(self.text)
            if content is None:
                raise DseError(f"{self.path}: cannot read: {error}") from None
            return content

"""A file of measured times before its format is known: unpacked, and decoded when it is asked for."""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dse.core.files import parse_json
from dse.data.measured import kernel_tuner
from dse.data.safe_readers import MOST_BYTES, unzipped
from dse.errors import DseError, printable

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class File:
    """A file and its content, unzipped."""

    path: Path
    content: bytes

    @classmethod
    def of(cls, path: Path, most: int = MOST_BYTES) -> "File":
        """Read a file, gzipped or not, whatever its suffix says.

        **Raises:** DseError if it cannot be read, or for more than `most` bytes, packed or not.
        """
        return cls(path, unzipped(path, most))

    @cached_property
    def text(self) -> str:
        """The content as text in UTF-8, or in UTF-16 where it says so; control characters are written out."""
        text = self.content.decode("utf-16" if self.content.startswith(_UTF16) else "utf-8-sig")
        return _CONTROL.sub(lambda match: printable(match[0]), text)

    @property
    def is_json(self) -> bool:
        """Whether the content begins as a JSON object does."""
        return self.text.lstrip().startswith("{")

    @property
    def is_list(self) -> bool:
        """Whether the content begins as a JSON list does."""
        return self.text.lstrip().startswith("[")

    @cached_property
    def json(self) -> Any:
        """The JSON object or list.

        **Raises:** DseError if the content is none, and no cache that was left open.
        """
        try:
            return parse_json(self.text, str(self.path))
        except DseError:
            content = kernel_tuner.closed(self.text)
            if content is None:
                raise
            return content

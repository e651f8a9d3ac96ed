"""A file of measured times before its format is known: unzipped, and decoded on demand."""

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

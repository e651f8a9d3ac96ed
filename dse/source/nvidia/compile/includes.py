"""The files that a kernel's source includes, from its own folder and given ones only."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dse.core.files import is_file, read_bytes
from dse.errors import DseError


def normal(content: str, where: str) -> str:
    """Normalise a source before it is scanned and compiled: without byte-order mark, lines ended by LF.

    **Raises:** DseError for other control characters except tabs, since compilers interpret them differently.
    """
    text = content.removeprefix("\ufeff").replace("\r\n", "\n")
    if control := _CONTROL.search(text):
        line, start = text.count("\n", 0, control.start()) + 1, text.rfind("\n", 0, control.start()) + 1
        problem = f"found the control character U+{ord(control[0]):04X}"
        raise DseError(f"{where}:{line}:{control.start() - start + 1}: {problem}, expected none but tab")
    return text


def single(text: str, where: str) -> str:
    """Check and return a text that is added to a source after the scan.

    **Raises:** DseError for control characters, which could begin a new line.
    """
    if _CONTROL.search(text) or "\n" in text:
        raise DseError(f"{where}: found {text!r}, expected no control characters")
    return text


def macro(name: str, value: Any, where: str) -> tuple[str, str]:
    """Return the name and value of a macro, on one line; True and False are 1 and 0.

    **Raises:** DseError as `single` for its name.
    """
    text = str(int(value)) if isinstance(value, bool) else " ".join(str(value).splitlines())
    return single(name, f"{where}: macro"), text


def included(text: str, source: str, folders: Sequence[str]) -> Iterator[tuple[str, Path, str]]:
    """Yield name, path and text of every file that `text` includes, directly or indirectly.

    A file that has several names is yielded with each of them.

    Files that are not found may be built into the compiler.

    **Raises:** DseError, one line that does not quote the file, for a file outside of the folders, and if a
    macro names the file in `source` or in a file of the first folder.
    """
    waiting = [(name, folders, source) for name in _names(text, source)]
    inside = [Path(folder).resolve() for folder in folders]
    seen = set()
    while waiting:
        name, searched, where = waiting.pop()
        for path in _candidates(name, searched):
            if (name, path) in seen:
                continue
            seen.add((name, path))
            if not any(path.resolve().is_relative_to(folder) for folder in inside):
                expected = f"expected a file in {inside[0]}, below it, or in a folder given (given.folders)"
                raise DseError(f"{where}: include: found {name!r}, {expected}")
            text = read_bytes(path, MOST_BYTES).decode("utf-8", errors="replace")
            own = path.resolve().is_relative_to(inside[0])  # installed headers may name files by macros
            text = normal(text, str(path)) if own else text
            yield name, path, text
            inner = _names(text, str(path)) if own else _PLAIN.findall(text)
            waiting += [(header, (str(path.parent), *folders), str(path)) for header in inner]


def plainly_named(*texts: str) -> set[str]:
    """Collect the files included by directives on lines of their own."""
    return {name for text in texts for name in _PLAIN.findall(text)}


def _candidates(name: str, folders: Sequence[str]) -> list[Path]:
    """List the files that a name may refer to, since compilers differ in their order of search.

    Some append any name to a folder: `"//x.h"` is `FOLDER//x.h`.
    """
    paths = (path for folder in folders for path in (Path(folder, name), Path(f"{folder}/{name}")))
    return [path for path in paths if is_file(path)] or [path for path in [Path(name)] if is_file(path)]


def _names(text: str, where: str) -> list[str]:
    """List the files that a text includes, in all spellings of the directive.

    Directives in comments and strings count too, since to exclude them would take a full parser.
    """
    names, text = [], _SPLICE.sub("", text)
    for directive in _DIRECTIVE.finditer(text):
        open_comment, quoted, bracketed, rest = directive.groups()
        if open_comment:
            raise DseError(f"{where}: include: found a comment of over {_COMMENT} characters behind a #")
        if quoted or bracketed:
            names.append(quoted or bracketed)
        elif rest is not None and _is_first(text, directive.start()):
            raise DseError(f'{where}: include: found {rest[:60]!r}, expected "FILE" or <FILE>')
    for asked in _ASKED.finditer(text):
        quoted, bracketed, rest = asked.groups()
        if rest is not None:
            raise DseError(f'{where}: __has_include: found {rest[:60]!r}, expected "FILE" or <FILE>')
        names.append(quoted or bracketed)
    return names


def _is_first(text: str, place: int) -> bool:
    """Return whether only comments precede an index on its line."""
    before = text[text.rfind("\n", 0, place) + 1 : place]
    return re.search(r"(?:^|\*/)[\s\u180e]*$", before) is not None


MOST_BYTES = 1 << 26  # of an included file
_COMMENT = 1000
_SPLICE = re.compile(r"(?:\\|\?\?/)[ \t]*+\r?\n")
_BLANK = rf"(?:[^\S\n]++|\u180e|/\*(?:(?!\*/).){{0,{_COMMENT}}}+\*/)*+"
_DIRECTIVE = re.compile(  # an unclosed comment; the file, or a macro
    rf"(?:#|%:|\?\?=){_BLANK}(?:(/\*)|(?:include_next|include|import|embed)\b{_BLANK}"
    r'(?:"([^"\n]+)"|<([^>\n]+)>|(\w+|[^\n]*)))',
    re.DOTALL,
)
_ASKED = re.compile(
    rf"\b__has_(?:include_next|include|embed){_BLANK}\({_BLANK}"
    r'(?:"([^"\n]+)"|<([^>\n]+)>|(\w+|[^\n]*))',
    re.DOTALL,
)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_PLAIN = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)

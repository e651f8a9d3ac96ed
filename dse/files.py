"""Write files whole or not at all, and find the folder of those that can be made again."""

import os
import secrets
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dse.errors import DseError


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """Give a path to write to, in the same folder; it becomes `path` if the block ends well, else vanishes.

    A reader sees the old file or the new one, never a part. The path given keeps the suffix of `path`, for
    writers that choose a format by it. A link is written through; a pipe or device is written directly.

    **Raises:** DseError if the folder is missing or not writable, `path` is a folder, or writing fails.
    """
    path = Path(path)
    if path.is_dir():
        raise DseError(f"{path}: found a folder, expected a file name")
    if path.exists() and not path.is_file():
        yield path
        return
    target = path.resolve()
    folder = target.parent
    if not folder.is_dir():
        raise DseError(f"{path}: found no folder {folder}, expected one that exists")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise DseError(f"{path}: folder {folder} is not writable")
    temporary = folder / f".{secrets.token_hex(4)}-{target.name}"
    try:
        yield temporary
        os.replace(temporary, target)
    except OSError as error:
        raise DseError(f"{path}: cannot write: {error.strerror or error}") from None
    finally:
        temporary.unlink(missing_ok=True)


def fill(page: Path, section: str, text: str) -> None:
    """Put `text` between the markers `<!-- SECTION: begin -->` and `<!-- SECTION: end -->` of a page.

    **Raises:** DseError if the page cannot be read or written, or lacks the markers.
    """
    begin, end = (f"<!-- {section}: {mark} -->" for mark in ("begin", "end"))
    try:
        content = page.read_text(encoding="utf-8")
    except OSError as error:
        raise DseError(f"{page}: cannot read: {error.strerror}") from None
    head, found, rest = content.partition(begin)
    _, closed, tail = rest.partition(end)
    if not (found and closed):
        raise DseError(f"{page}: found no markers, expected {begin} and {end}")
    with replacing(page) as half:
        half.write_text(f"{head}{begin}\n\n{text}\n\n{end}{tail}", encoding="utf-8")


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file of at most MOST_TOML_BYTES. **Raises:** DseError, one line, if it is none."""
    try:
        with path.open("rb") as file:  # what is no regular file need not end
            content = file.read(MOST_TOML_BYTES + 1)
        if len(content) > MOST_TOML_BYTES:
            raise DseError(f"{path}: found more than {MOST_TOML_BYTES:,} bytes, expected a smaller file")
        return tomllib.loads(content.decode("utf-8"))
    except OSError as error:
        raise DseError(f"{path}: cannot read: {error.strerror}") from None
    except RecursionError:
        raise DseError(f"{path}: is not TOML: nested too deep") from None
    except ValueError as error:  # no TOML, no text, or a number of too many digits
        raise DseError(f"{path}: is not TOML: {' '.join(str(error).split())[:200]}") from None


MOST_TOML_BYTES = 1 << 24


def given_path(name: str | Path) -> Path:
    """Return a path as a user gave it, with their home in place of ~; there need be nothing at it.

    **Raises:** DseError for one that no file can have.
    """
    try:
        path = Path(name).expanduser()
        path.exists()
    except (OSError, RuntimeError) as error:  # too long, or the home of a user that is not known
        reason = error.strerror if isinstance(error, OSError) else error
        shown = str(name) if len(str(name)) <= _MOST_SHOWN else f"{str(name)[:_MOST_SHOWN]}..."
        raise DseError(f"path: found {shown!r}, expected one that a file can have: {reason}") from None
    return path


_MOST_SHOWN = 100  # characters of a path


def cache_folder() -> Path:
    """The folder of caches: $DSE_CACHE, else the platform's place for such files."""
    if given := os.environ.get("DSE_CACHE"):
        return Path(given)
    if sys.platform == "win32" and (given := os.environ.get("LOCALAPPDATA")):
        return Path(given) / "dse"
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given) / "dse"
    try:
        home = Path.home()
    except RuntimeError:  # in a container: no HOME, and a user id that no list has
        return Path(tempfile.gettempdir()) / f"dse-{os.getuid()}"
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "dse"


def own_folder(path: Path) -> None:
    """Make a folder that only we write to, if there is none: what lies in it is trusted.

    **Raises:** DseError if it is another user's, or all may write to it; OSError if it cannot be made.
    """
    for folder in [*reversed(path.parents), path]:
        if not folder.exists():
            folder.mkdir(mode=0o700, exist_ok=True)  # whatever the umask
    if not hasattr(os, "getuid"):  # Windows keeps folders of a user from others
        return
    stated = path.stat()
    if stated.st_uid not in (os.getuid(), 0):
        owner = f"found user {stated.st_uid}, expected {os.getuid()}, who runs this"
        raise DseError(f"{path}: owner: {owner}; set DSE_CACHE to a folder of yours")
    if stated.st_mode & 0o002:
        raise DseError(f"{path}: found a folder that all may write to; set DSE_CACHE to a folder of yours")
    if stated.st_mode & 0o020 and stated.st_uid == os.getuid():
        path.chmod(stated.st_mode & 0o755)

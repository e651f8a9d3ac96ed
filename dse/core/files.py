"""Atomic writes, bounded reads of text, TOML and JSON, locks, and the cache folder."""

import json
import os
import re
import secrets
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO

from dse.errors import DseError, printable

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

HAS_LOCKS = fcntl is not None


@contextmanager
def replacing(path: Path | str, within: Path | None = None) -> Iterator[Path]:
    """Yield a temporary path that replaces `path` if the block succeeds, and is deleted otherwise.

    Readers see the old file or the new one, never a part. The temporary path keeps the suffix of `path`, for
    writers that choose a format by it, and is in the same folder, or in `within` if that is on the same
    disk. Links are followed; a pipe or device is written directly.

    **Raises:** DseError as `check_target`, and if writing fails.
    """
    path = Path(path)
    if not check_target(path):
        yield path
        return
    target = path.resolve()
    folder = target.parent
    if within is not None and within.stat().st_dev == folder.stat().st_dev:
        folder = within
    temporary = folder / f".{secrets.token_hex(4)}-{target.name[-_END:]}"
    try:
        temporary.touch(exist_ok=False)  # fails for an existing file or link
        yield temporary
        os.replace(temporary, target)
    except OSError as error:
        raise DseError(f"{path}: cannot write: {error.strerror or error}") from None
    finally:
        temporary.unlink(missing_ok=True)


_END = 40  # characters of the name that are kept: it may be as long as the system allows


def check_target(path: Path) -> bool:
    """Check that `path` can be written; return whether it is a regular file or absent, not a pipe or device.

    **Raises:** DseError if the folder is missing or not writable, or `path` is a folder.
    """
    if path.is_dir():
        raise DseError(f"{path}: found a folder, expected a file name")
    if path.exists() and not path.is_file():
        return False
    try:
        folder = path.resolve().parent
    except RuntimeError:
        raise DseError(f"{path}: found a loop of links, expected a file name") from None
    if not folder.is_dir():
        missing = folder if path.is_symlink() else path.parent
        raise DseError(f"{path}: found no folder {missing}, expected one that exists")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise DseError(f"{path}: folder {folder} is not writable")
    return True


def locked(file: IO[Any], *, wait: bool = False) -> bool:
    """Lock an open file until it is closed; return False if another process holds the lock.

    With `wait`, wait for it. Without locks in the system or file system, this always succeeds.
    """
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def own(path: Path) -> Path:
    """Return the path of a file or folder that dse keeps beside a user's. **Raises:** DseError for a link."""
    if path.is_symlink():
        raise DseError(f"{path}: found a link, expected a file or folder of dse, or none yet")
    return path


def open_own(path: Path) -> BinaryIO:
    """Open a file of dse for appending, created if missing, without following links.

    **Raises:** DseError for a link, or if it cannot be opened.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    try:
        return os.fdopen(os.open(own(path), flags, 0o666), "ab")
    except OSError as error:
        raise DseError(f"{path}: cannot write: {error.strerror}") from None


def can_lock(file: IO[Any]) -> bool:
    """Whether the system and the file system support locks."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(file, fcntl.LOCK_UN)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return True


def fill(page: Path, section: str, text: str) -> None:
    """Put `text` between the markers `<!-- SECTION: begin -->` and `<!-- SECTION: end -->` of a page.

    **Raises:** DseError if the page cannot be read or written, or lacks the markers.
    """
    head, tail = around(page, section)
    with replacing(page) as temporary:
        temporary.write_text(f"{head}\n\n{text}\n\n{tail}", encoding="utf-8")


def around(page: Path, section: str) -> tuple[str, str]:
    """Read a page before and after a section, with the markers. **Raises:** DseError as `fill`."""
    begin, end = (f"<!-- {section}: {mark} -->" for mark in ("begin", "end"))
    check_target(page)
    head, opened, rest = read_text(page).partition(begin)
    _, closed, tail = rest.partition(end)
    if not (opened and closed):
        raise DseError(f"{page}: found no markers, expected {begin} and {end}")
    return head + begin, end + tail


def read_bytes(path: Path, most: int) -> bytes:
    """Read a file of at most `most` bytes.

    **Raises:** DseError, one line, if it is larger or cannot be read.
    """
    try:
        with path.open("rb") as file:  # a pipe or device need not end
            content = bytearray()  # read in parts: one large read would allocate `most` bytes
            while part := file.read(min(_AT_ONCE, most + 1 - len(content))):
                content += part
    except OSError as error:
        raise DseError(f"{path}: cannot read: {error.strerror or error}") from None
    except ValueError as error:  # a null character in the path
        raise DseError(f"{path}: cannot read: {error}") from None
    if len(content) > most:
        raise DseError(f"{path}: found more than {most:,} bytes, expected a smaller file")
    return bytes(content)


def read_text(path: Path, most: int | None = None) -> str:
    """Read a text file of at most `most` bytes (default: MOST_TEXT_BYTES).

    **Raises:** DseError as `read_bytes`, and if it is not UTF-8.
    """
    try:
        return read_bytes(path, MOST_TEXT_BYTES if most is None else most).decode("utf-8")
    except UnicodeDecodeError as error:
        raise DseError(f"{path}: text: found byte {error.start} that is no UTF-8, expected UTF-8") from None


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file of at most MOST_TOML_BYTES. **Raises:** DseError if it is not TOML.

    Integers have 64 bits, as in TOML's specification; control characters in strings are escaped.
    """
    text = read_text(path, MOST_TOML_BYTES)
    try:
        return _checked(tomllib.loads(text), str(path))
    except (RecursionError, MemoryError):
        raise DseError(f"{path}: is not TOML: nested too deep") from None
    except ValueError as error:  # not TOML, or a number with too many digits
        raise DseError(f"{path}: is not TOML: {error}") from None


def read_json(path: Path) -> Any:
    """Read a JSON file of at most MOST_TEXT_BYTES. **Raises:** DseError as `read_text` and `parse_json`."""
    return parse_json(read_text(path), str(path))


def parse_json(text: str, where: str) -> Any:
    """Parse JSON; control characters in strings are escaped.

    **Raises:** DseError that begins with `where` if it is not JSON, or has integers of over 64 bits.
    """
    try:
        parsed = json.loads(text, parse_int=_whole)
    except (RecursionError, MemoryError):
        raise DseError(f"{where}: is not JSON: nested too deep") from None
    except ValueError as error:  # not JSON, or a number with too many digits
        raise DseError(f"{where}: is not JSON: {error}") from None
    return _checked(parsed, where) if _ESCAPED.search(text) else parsed


def parse_json_lines(text: str, where: str) -> list[Any]:
    """Parse one JSON object a line; the last line may be cut off, as by an interruption, and is left out.

    **Raises:** DseError that begins with `where` and the line, as `parse_json`.
    """
    lines, rows = text.splitlines(), []
    for number, line in enumerate(lines, 1):
        try:
            rows += [parse_json(line, f"{where}: line {number}")] if line else []
        except DseError:
            if number < len(lines) or text.endswith("\n") or not line.startswith("{"):
                raise
    return rows


def _whole(digits: str) -> int:
    if len(digits) <= _DIGITS and abs(number := int(digits)) < 2**64:
        return number
    raise ValueError(f"found the number {digits[:_DIGITS]}..., expected one of 64 bits")


def _checked(tree: Any, where: str) -> Any:
    """Escape the strings of a tree. **Raises:** DseError for too many levels or too large integers."""

    def checked(node: Any, level: int) -> Any:
        if level > _MOST_LEVELS:
            raise DseError(f"{where}: found more than {_MOST_LEVELS} levels, expected a flatter file")
        if isinstance(node, str):
            return node if node.isprintable() else "".join(map(_shown, node))
        if isinstance(node, dict):
            return {checked(key, level): checked(value, level + 1) for key, value in node.items()}
        if isinstance(node, list):
            return [checked(child, level + 1) for child in node]
        if isinstance(node, int) and abs(node) >= 2**64:
            raise DseError(f"{where}: found an integer of {node.bit_length()} bits, expected one of 64")
        return node

    return checked(tree, 0)


def _shown(character: str) -> str:
    return character if character in "\n\t" else printable(character)


MOST_TOML_BYTES = 1 << 24
MOST_TEXT_BYTES = 1 << 28
_AT_ONCE = 1 << 22  # bytes
_MOST_LEVELS = 100
_DIGITS = 21  # of a 64-bit number with a sign
_ESCAPED = re.compile(r"\\[bfu]|[^ -~\n\r\t]")  # perhaps a control character


def given_path(name: str | Path) -> Path:
    """Return a user's path with ~ expanded; nothing need exist there.

    Missing read permission is reported when the file is read.

    **Raises:** DseError for a path that no file can have.
    """
    try:
        path = Path(name).expanduser()
        with suppress(PermissionError):
            path.exists()
    except (OSError, RuntimeError, ValueError) as error:  # too long, a null character, or an unknown user
        reason = error.strerror if isinstance(error, OSError) else error
        shown = str(name) if len(str(name)) <= _MOST_SHOWN else f"{str(name)[:_MOST_SHOWN]}..."
        raise DseError(f"path: found {shown!r}, expected one that a file can have: {reason}") from None
    return path


_MOST_SHOWN = 100  # characters of a path


def files_within(folder: Path) -> list[Path]:
    """List the files below a folder; none if it does not exist."""
    return [path for path in folder.rglob("*") if is_file(path)] if is_folder(folder) else []


def is_file(path: Path) -> bool:
    """Whether there is an accessible file."""
    return os.path.isfile(path)  # unlike Path.is_file, never raises: too long a name, no permission


def file_below(folder: Path, name: str, where: str) -> Path:
    """Return the path of file `name` in `folder` or below it, links followed.

    **Raises:** DseError that begins with `where` if it is elsewhere or missing.
    """
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise DseError(f"{where}: found {name!r}, expected a file beside it or below")
    if not is_file(path):
        raise DseError(f"{where}: found no file {name}, expected one beside it")
    return path


def is_folder(path: Path) -> bool:
    """Whether there is an accessible folder."""
    return os.path.isdir(path)


def cache_folder() -> Path:
    """Return the cache folder: $DSE_CACHE, else the platform's default."""
    if setting := os.environ.get("DSE_CACHE"):
        return Path(setting)
    if sys.platform == "win32" and (setting := os.environ.get("LOCALAPPDATA")):
        return Path(setting) / "dse"
    if setting := os.environ.get("XDG_CACHE_HOME"):
        return Path(setting) / "dse"
    with suppress(RuntimeError):  # in a container: no HOME, and an unknown user id
        folder = Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "dse"
        if may_write(folder):
            return folder
    try:
        temporary = tempfile.gettempdir()
    except FileNotFoundError:  # nothing is writable: reported on the first write
        temporary = "/tmp"
    return Path(temporary) / f"dse-{os.getuid()}"


def may_write(folder: Path) -> bool:
    """Whether we may write to a folder, or create it."""
    existing = next((parent for parent in (folder, *folder.parents) if os.path.lexists(parent)), folder)
    return os.access(existing, os.W_OK | os.X_OK)


def own_folder(path: Path) -> None:
    """Create a folder that only this user can write to: its contents are trusted.

    **Raises:** DseError if it exists and is another user's or world-writable; OSError if it cannot be made.
    """
    for folder in [*reversed(path.parents), path]:
        if not folder.exists():
            folder.mkdir(mode=0o700, exist_ok=True)
            folder.chmod(0o700)  # whatever the umask
    if not hasattr(os, "getuid"):  # on Windows a user's folders are private
        return
    status = path.stat()
    if status.st_uid not in (os.getuid(), 0):
        owner = f"found user {status.st_uid}, expected {os.getuid()}, who runs this"
        raise DseError(f"{path}: owner: {owner}; set DSE_CACHE to a folder of yours")
    if status.st_mode & 0o002:
        raise DseError(f"{path}: found a folder that all may write to; set DSE_CACHE to a folder of yours")
    if status.st_mode & 0o020 and status.st_uid == os.getuid():
        path.chmod(status.st_mode & 0o755)

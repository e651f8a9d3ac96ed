"""Files are written whole or not at all."""

import errno
import os
import re
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from dse.core.files import (
    MOST_TOML_BYTES,
    cache_folder,
    check_target,
    fill,
    given_path,
    locked,
    open_own,
    own,
    own_folder,
    read_bytes,
    read_toml,
    replacing,
)
from dse.errors import DseError


def test_a_lock_is_had_once_and_goes_with_its_file(tmp_path):
    path = tmp_path / "lock"
    with path.open("w") as first, path.open("w") as second:
        assert locked(first)
        assert not locked(second)
        first.close()
        assert locked(second)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_leaves_the_old_file_when_the_block_fails(tmp_path, error):
    path = tmp_path / "out.txt"
    path.write_text("old")
    with suppress(error), replacing(path) as half:
        half.write_text("half")
        raise error
    assert (path.read_text(), list(tmp_path.iterdir())) == ("old", [path])


def test_a_loop_of_links_is_neither_written_through_nor_a_file(tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert not given_path(loop).is_file()
    with pytest.raises(DseError, match="loop: found a loop of links, expected a file name"):
        check_target(loop)


def test_what_is_kept_beside_a_file_follows_no_link(tmp_path):
    kept = tmp_path / "kept"
    kept.write_text("a user's")
    for target in (kept, tmp_path / "none yet"):
        link = tmp_path / f"link to {target.name}"
        link.symlink_to(target)
        for use in (open_own, own):
            with pytest.raises(DseError, match=r"link to .*: found a link, expected a file or folder of dse"):
                use(link)
    assert kept.read_text() == "a user's"
    assert not (tmp_path / "none yet").exists()
    for text in (b"one\n", b"two\n"):
        with open_own(tmp_path / "ours") as file:
            file.write(text)
    assert (tmp_path / "ours").read_text() == "one\ntwo\n"


def test_what_cannot_be_written_leaves_nothing(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("old")
    for path in (tmp_path / "folder", tmp_path / "none" / "a", tmp_path / "file" / "a"):
        with pytest.raises(DseError, match=re.escape(f"{path}: found")), replacing(path) as half:
            half.write_text("new")
    assert sorted(item.name for item in tmp_path.rglob("*")) == ["file", "folder"]


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path, monkeypatch):
    def fails(half, target):
        assert (half.read_text(), target.read_text()) == ("new", "old")
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "a.svg"
    path.write_text("old")
    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(DseError, match=r"cannot write: No space left on device$"), replacing(path) as half:
        half.write_text("new")
    assert [item.name for item in tmp_path.iterdir()] == ["a.svg"]
    assert path.read_text() == "old"


def test_fills_a_section_and_leaves_the_rest(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Title\n<!-- speed: begin -->\nold\n<!-- speed: end -->\nmore\n")
    for text in ("new", "newer"):
        fill(page, "speed", text)
        expected = f"# Title\n<!-- speed: begin -->\n\n{text}\n\n<!-- speed: end -->\nmore\n"
        assert page.read_text() == expected
    page.write_text("<!-- speed: begin -->\nold\n")
    with pytest.raises(DseError, match=r"page.md: found no markers, expected <!-- speed: begin -->"):
        fill(page, "speed", "new")
    assert page.read_text() == "<!-- speed: begin -->\nold\n"


def test_a_folder_of_ones_own(tmp_path):
    before = os.umask(0)
    try:
        own_folder(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    assert [(tmp_path / item).stat().st_mode & 0o777 for item in ("a", "a/b")] == [0o700, 0o700]
    (tmp_path / "a").chmod(0o775)
    own_folder(tmp_path / "a")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o755
    (tmp_path / "a").chmod(0o777)
    with pytest.raises(DseError, match=r"a: found a folder that all may write to; set DSE_CACHE"):
        own_folder(tmp_path / "a")


def test_a_folder_of_someone_else(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 4321)
    if tmp_path.stat().st_uid == 0:  # whom everybody trusts
        os.chown(tmp_path, 1234, -1)
    with pytest.raises(DseError, match=r"owner: found user \d+, expected \d+, who runs this"):
        own_folder(tmp_path)


@pytest.fixture
def home(monkeypatch, tmp_path):
    """A home that is still to be made; nothing else says where the cache is to be."""
    for name in ("DSE_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


ELSEWHERE = Path(tempfile.gettempdir()) / f"dse-{os.getuid()}"


def test_the_cache_is_in_a_home_that_can_be_written(home, monkeypatch):
    assert cache_folder().is_relative_to(home)
    monkeypatch.setattr(os, "access", lambda path, mode: path != home.parent)
    assert cache_folder() == ELSEWHERE


@pytest.mark.usefixtures("home")
def test_a_machine_where_nothing_can_be_written(monkeypatch):
    def nowhere():
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    assert cache_folder().name == ELSEWHERE.name


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_is_read_to_its_end(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    content = os.urandom(10**5)
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(content,))
    writer.start()
    assert read_bytes(tmp_path / "pipe", 10**6) == content
    writer.join()


@pytest.mark.parametrize(("name", "reason"), [("a" * 300, "File name too long"), ("~nobody-here/x", "home")])
def test_paths_that_no_file_can_have(name, reason):
    with pytest.raises(DseError, match=rf"^path: found '.{{1,110}}', expected one .*: .*{reason}"):
        given_path(name)


def test_paths_of_files(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert given_path("~/x") == tmp_path / "x"
    path = tmp_path / ("µ" * 120 + "-long.parquet")
    with replacing(path) as half:
        assert half.suffix == ".parquet"
        half.write_text("new")
    assert [item.name for item in tmp_path.iterdir()] == [path.name]
    assert path.read_text() == "new"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a = ", "is not TOML: Invalid value"),
        (b"a = \xff", "text: found byte 4 that is no UTF-8"),
        (b"a = " + b"[" * 100_000, "is not TOML: nested too deep"),
        (b"a = " + b"9" * 5_000, "is not TOML: Exceeds the limit"),
        (b"#" * (MOST_TOML_BYTES + 1), "found more than 16,777,216 bytes, expected a smaller file"),
    ],
)
def test_what_is_no_toml_is_one_line(tmp_path, content, message):
    path = tmp_path / "a.toml"
    path.write_bytes(content)
    with pytest.raises(DseError) as error:
        read_toml(path)
    assert str(error.value).startswith(f"{path}: {message}")
    assert len(str(error.value)) < 400 + len(str(path))

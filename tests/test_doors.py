"""Every door for files of others: whatever comes in, what comes out is data, or one printable line."""

import zlib
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import fuzz
import fuzz_subjects as subjects
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dse.core.files import parse_json, read_text, read_toml
from dse.errors import MOST_CHARACTERS, MOST_QUOTED, DseError, InputWarning, one_line, printable
from dse.source.kept import unpack
from dse.source.nvidia.compile.constants import constants
from dse.source.nvidia.compile.includes import included
from dse.source.nvidia.compile.kernel_names import declared_in
from dse.source.nvidia.sass import elf


@pytest.fixture(scope="module")
def texts(tmp_path_factory) -> Path:
    """Valid files of every kind that is text."""
    folder = tmp_path_factory.mktemp("texts")
    subjects.write(folder)
    return folder


@pytest.fixture(scope="module")
def valid(tmp_path_factory) -> Path:
    """Valid files of every kind: every command reads them."""
    folder = tmp_path_factory.mktemp("valid")
    fuzz.prepare(folder)
    return folder


def expect_an_answer_or_one_line(row, files, rng):
    with TemporaryDirectory() as folder:
        words = fuzz.broken(row, files, Path(folder), rng)
        assert not fuzz.wrong(words, Path(folder)), words


@pytest.mark.parametrize("row", fuzz.rows(fuzz.READERS))
@settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow])
@given(rng=st.randoms(use_true_random=False))
def test_a_file_is_read_or_refused_in_one_line(row, texts, rng):
    expect_an_answer_or_one_line(row, texts, rng)


@pytest.mark.slow
@pytest.mark.parametrize("row", fuzz.rows(fuzz.COMMANDS))
@settings(max_examples=2, suppress_health_check=[HealthCheck.too_slow])
@given(rng=st.randoms(use_true_random=False))
def test_a_command_answers_or_refuses_in_one_line(row, valid, rng):
    expect_an_answer_or_one_line(row, valid, rng)


@pytest.mark.parametrize("row", fuzz.rows(fuzz.READERS))
def test_a_valid_file_is_read(texts, row):
    assert not fuzz.wrong(row.split(), texts, (0,))


@settings(max_examples=50)
@given(st.binary(max_size=200))
def test_a_record_of_the_cache_is_read_or_dropped_with_a_warning(data):
    with pytest.warns(InputWarning, match="cache: a record cannot be read and is made again"):
        assert unpack(data, elf.Parameter) is None


# The smallest inputs of each kind that once went wrong.


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5000, "1" + "0" * 30, '{"a": ' * 5000, "nul", ""])
def test_json(text):
    with pytest.raises(DseError, match=r"^x: is not JSON: "):
        parse_json(text, "x")


def test_control_characters_in_texts_are_written_out(tmp_path):
    assert parse_json(r'{"a\u001b": ["\u202e", 1, "\n\t\u00b5"]}', "x") == {"a\\x1b": ["\\u202e", 1, "\n\tµ"]}
    (tmp_path / "a.toml").write_text(r'a = "\u001b[31m"')
    assert read_toml(tmp_path / "a.toml") == {"a": "\\x1b[31m"}


def test_a_message_is_one_printable_line_that_is_not_long():
    assert str(DseError("a\nb\x1b[1m\u202e\ud800")) == "a b\\x1b[1m\\u202e\\ud800"
    quoted = str(DseError(f"k.toml: name: found {'x' * 10**5}, expected one"))
    assert quoted.startswith("k.toml: name: found xxx")
    assert quoted.endswith("xxx, expected one")
    assert len(quoted) < MOST_QUOTED + 60
    assert len(str(DseError("found " + "x " * 10**5))) == MOST_CHARACTERS


@given(st.text(st.characters(codec=None, categories=None), max_size=30))
def test_what_is_printable_stays(text):
    assert printable(text).isprintable()
    assert one_line(text).isprintable()
    if text.isprintable():
        assert printable(text) == text


def test_a_device_that_does_not_end_behind_a_link(tmp_path):
    (tmp_path / "a.cu").symlink_to("/dev/zero")
    with pytest.raises(DseError, match="found more than 1,000 bytes"):
        read_text(tmp_path / "a.cu", 1000)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("MOV R300, R1", "found R300, expected one of 255 registers"),
        ("MOV R1, R" + "9" * 5000, "expected one of 255 registers"),
        ("MOV R1, c[0x0][0x7fffffff]", "of a constant bank"),
        ("MOV R1, 0x" + "f" * 20, "64 bits"),
        ("LDG.E R1, [R2.64+1x70]", "invalid literal"),
        ("FADD R1, R2, 1.2.3", "could not convert"),
    ],
)
def test_operands_that_there_are_not(tmp_path, line, what):
    (tmp_path / "x").write_text(subjects.SASS.replace("MOV R1, c[0x0][0x28]", line))
    with pytest.raises(DseError, match=rf"/x:\d: instruction: found .*{what}"):
        subjects.code(tmp_path / "x")


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    ["__global__ " * 4000, "# /* */" * 20_000, "/**/ " * 20_000, "#" * 50_000, "#/*" * 20_000],
    ids=lambda text: f"{text[:8]!r} again and again",
)
def test_readers_of_sources_take_linear_time(text):
    """Each took over ten seconds."""
    declared_in(text)
    constants(text, {}, 1)
    with suppress(DseError):  # of a comment that is too long
        list(included(text, "k.cu", ["/nowhere"]))


def test_an_include_behind_a_long_comment_is_no_way_out(tmp_path):
    text = f'#/*{"x" * 2000}*/include "/etc/hostname"\n'
    with pytest.raises(DseError, match="include: found a comment of over 1000 characters"):
        list(included(text, "k.cu", [str(tmp_path)]))


def test_a_record_that_unpacks_to_too_much():
    packed = b"z" + zlib.compress(b"\0" * 10**6)
    with pytest.warns(InputWarning, match="its checksum is wrong"):
        assert unpack(b"12345678" + packed, elf.Parameter) is None

"""Every door for files of others: whatever comes in, what comes out is data, or one printable line."""

import gzip
import io
import json
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dse import kernels
from dse.bridges import calls
from dse.core.files import parse_json, read_json, read_text, read_toml
from dse.core.space.expression import parse
from dse.data import safe_readers
from dse.data.measured import formats
from dse.data.measured.file import File
from dse.errors import MOST_CHARACTERS, MOST_QUOTED, DseError, InputWarning, one_line, printable
from dse.simulator.case import graph_file, trace_text
from dse.source.kept import unpack
from dse.source.nvidia.compile.constants import constants
from dse.source.nvidia.compile.includes import included
from dse.source.nvidia.compile.kernel_names import declared_in
from dse.source.nvidia.compile.triton_metadata import read as read_metadata
from dse.source.nvidia.sass import elf, listing
from dse.source.nvidia.sass.program import program
from dse.source.readers import t1

ROOT = Path(__file__).parents[1]
SASS = """\t.target\tsm_80
.section\t.text.k,"ax",@progbits
        /*0000*/                   MOV R1, c[0x0][0x28] ;
        /*0010*/                   IMAD.WIDE R2, R0, 0x4, R4 ;
        /*0020*/              @!P0 LDG.E R3, [R2.64+0x10] ;
        /*0030*/                   EXIT ;
"""
TRACE = ".kernel k\n.block 2\n.repeat 3\nGLD.U32 R2, global14[R1];\nIMAD R3, R2, R1, R3;\n.end\n"
T1 = json.dumps(
    {
        "General": {"BenchmarkName": "k"},
        "ConfigurationSpace": {"TuningParameters": [{"Name": "b", "Type": "int", "Values": "[32, 64]"}]},
        "KernelSpecification": {
            "Language": "CUDA",
            "KernelName": "k",
            "KernelFile": "k.cu",
            "LocalSize": {"X": "b", "Y": "1", "Z": "1"},
            "ProblemSize": [4096],
        },
    }
)
METADATA = json.dumps({"name": "k", "target": {"arch": 80}, "num_warps": 4, "shared": 0})
LOG = "AUTOTUNE mm(8x16, 16x8)\nstrides: [16, 1], [8, 1]\ndtypes: torch.float16, torch.float16\n"
CSV = "block_size,time_ms\n32,1.5\n64,2.5\n"
GRAPH = (ROOT / "kernels/example/graph.toml").read_text()
KERNEL = (ROOT / "kernels/mat_naive/kernel.toml").read_text()


def code(text: str, where: Path) -> None:
    for each in listing.parse(text, str(where)):
        listing.resources(text, each)
        program(each)


# What reads a file, and a valid one.
READERS = {
    "TOML": (read_toml, KERNEL),
    "JSON": (read_json, T1),
    "kernel": (lambda path: kernels.load(path.rename(path.with_name("kernel.toml"))), KERNEL),
    "graph": (graph_file.load, GRAPH),
    "trace": (trace_text.load, TRACE),
    "T1": (t1.load, T1),
    "Triton": (read_metadata, METADATA),
    "measured": (formats.read, CSV),
    "shapes": (lambda path: [call.product for call in calls.read(path)], "M,N,K,op\n8,16,32,addmm\n"),
    "log": (lambda path: [call.sizes for call in calls.read(path)], LOG),
    "listing": (lambda path: code(read_text(path), path), SASS),
    "cubin": (lambda path: elf.read(path.read_bytes(), str(path)), "\x7fELF\2\1\1"),
    "includes": (
        lambda path: list(included(read_text(path), "k.cu", [str(path.parent)])),
        '#include "a.h"\n',
    ),
    "kernels in": (lambda path: declared_in(read_text(path)), "__global__ void f(int* a) {}\n"),
    "constants": (
        lambda path: constants(read_text(path), {"N": 3}, 2),
        "#if N\nconst int a = N * 2;\n#endif\n",
    ),
    "expression": (
        lambda path: parse(read_text(path), "x"),
        "a * (b + 1) // 2 if a in (1, 2) else max(a, b)",
    ),
}
PIECES = [
    *(
        "9" * 5000,
        "1e400",
        "-1",
        "nan",
        "inf",
        "0x",
        "[" * 200,
        "{" * 200,
        "(" * 200,
        '"',
        "\\",
        "\x1b[31m",
        "\u202e",
    ),
    *(
        "\0",
        "null",
        "true",
        "\n",
        ",",
        "=",
        ";",
        "/*",
        "*/",
        "#include ",
        "__global__ ",
        ".repeat 2\n",
        "R300",
        ".",
    ),
]


@st.composite
def broken(draw: st.DrawFn, valid: str) -> bytes:
    """A valid file with pieces put in, or in the place of others, and perhaps cut off."""
    data = valid.encode()
    for _ in range(draw(st.integers(1, 3))):
        first = draw(st.integers(0, len(data)))
        last = draw(st.integers(first, min(len(data), first + 20)))
        new = draw(st.one_of(st.sampled_from(PIECES).map(str.encode), st.binary(max_size=8)))
        data = data[:first] + new + data[last:]
    return data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data


def check(reader, path: Path) -> None:
    try:
        reader(path)
    except DseError as error:
        message = str(error)
        assert message.isprintable()
        assert len(message) <= MOST_CHARACTERS


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_file_is_read_or_refused_in_one_line(tmp_path, name, data):
    reader, valid = READERS[name]
    path = tmp_path / "file.txt"
    path.write_bytes(data.draw(broken(valid)))
    check(reader, path)


@pytest.mark.parametrize("name", READERS)
def test_a_valid_file_is_read(tmp_path, name):
    reader, valid = READERS[name]
    (tmp_path / "a.h").touch()
    path = tmp_path / "file.txt"
    path.write_text(valid)
    if name == "cubin":
        with pytest.raises(DseError):
            reader(path)
    else:
        reader(path)


@settings(max_examples=50)
@given(st.binary(max_size=200))
def test_a_record_of_the_cache_is_read_or_dropped_with_a_warning(data):
    with pytest.warns(InputWarning, match="cache: a record cannot be read and is made again"):
        assert unpack(data, elf.Parameter) is None


# The smallest inputs of each kind that once went wrong.


@pytest.mark.parametrize(
    "content", [b"a = " + b"[" * 100_000, b"a = " + b"9" * 5000, b'a = "\xff"', b"a = 1" + b"0" * 30]
)
def test_toml(tmp_path, content):
    (tmp_path / "a.toml").write_bytes(content)
    with pytest.raises(DseError, match=r"a\.toml: "):
        read_toml(tmp_path / "a.toml")


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


def test_a_table_of_too_many_columns(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(",".join(f"c{n}" for n in range(20_000)) + "\n" + ",".join(["1"] * 20_000))
    with pytest.raises(DseError, match=r"a\.csv: columns: found 20,000, expected at most 2,000"):
        formats.read(path)


def test_packed_files_that_hold_more_than_they_seem(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 10**6))
    with pytest.raises(DseError, match="found more than 1,000,000 bytes"):
        File.of(path, 10**6)
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pa.table({"a": [1] * 10**6}), buffer, compression="zstd")
    assert len(buffer.getvalue()) < 10**5
    with pytest.raises(DseError, match="found more than 1,000,000 bytes"):
        safe_readers.parquet(path, buffer.getvalue(), most=10**6)


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
def test_operands_that_there_are_not(line, what):
    with pytest.raises(DseError, match=rf"^x:\d: instruction: found .*{what}"):
        code(SASS.replace("MOV R1, c[0x0][0x28]", line), Path("x"))


def test_addresses_of_a_listing_ascend():
    with pytest.raises(DseError, match="not above the last"):
        code(SASS.replace("/*0020*/", "/*0010*/"), Path("x"))


@pytest.mark.parametrize(
    "text",
    ["__global__ " * 4000, "# /* */" * 20_000, "/**/ " * 20_000, "#" * 50_000, "#/*" * 20_000],
    ids=repr,
)
def test_readers_of_sources_take_linear_time(text):
    """Each took over ten seconds."""
    declared_in(text)
    constants(text, {}, 1)
    try:
        list(included(text, "k.cu", ["/nowhere"]))
    except DseError as error:
        assert "comment of over" in str(error)  # noqa: PT017 one of the texts is refused


def test_an_include_behind_a_long_comment_is_no_way_out(tmp_path):
    text = f'#/*{"x" * 2000}*/include "/etc/hostname"\n'
    with pytest.raises(DseError, match="include: found a comment of over 1000 characters"):
        list(included(text, "k.cu", [str(tmp_path)]))


def test_loops_of_a_trace_are_not_nested_without_end():
    """Forty took 2^40 steps."""
    with pytest.raises(DseError, match=r"found .repeat within 8 others"):
        trace_text.parse(".repeat 2\n" * 40 + "MOV R1, R2;\n" + ".end\n" * 40)


def test_a_record_that_unpacks_to_too_much():
    packed = b"z" + zlib.compress(b"\0" * 10**6)
    with pytest.warns(InputWarning, match="its checksum is wrong"):
        assert unpack(b"12345678" + packed, elf.Parameter) is None

"""Kernels compiled beforehand, from the compiler to a plan where it is not."""

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dse import kernels
from dse.errors import DseError
from dse.hardware import gpus
from dse.measure.built import BuiltCode, BuiltFile, BuiltSpace, code_of, digest_of, read, together, write
from dse.measure.space import build, plan
from dse.source.contract import Failure, Launched, Passed
from dse.source.nvidia.compile import triton_function
from dse.source.nvidia.compile.contract import Compiled
from dse.source.nvidia.sass.elf import Binary

GPU = gpus.load("h100-sxm").gpu
MAP = Passed(0, "map", box=(64, 32), swizzle=3)
FIRST = BuiltCode(
    b"one", Launched(128, 49152, scratch_bytes=64, passed=(MAP, Passed(0, "stride", 1), Passed())), None
)
SECOND = BuiltCode(b"two", None, 8)
NONE = Failure("compile error", "no")
SMALL = BuiltSpace("k", "a", "C 1", {"n": 1}, ("x", "y"), ((1, 2), (3, 0.5), (5, 6)), (FIRST, NONE, SECOND))
LARGE = replace(SMALL, sizes={"n": 9}, outcomes=(SECOND, NONE, FIRST))
OTHER = replace(SMALL, kernel="j", outcomes=(NONE, NONE, NONE))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "k.zip"
    write(path, 90, [SMALL, LARGE, OTHER])
    return path


def test_what_is_written_is_read_and_spaces_are_found(path: Path):
    assert read(path) == BuiltFile(path, 90, (SMALL, LARGE, OTHER))
    built = read(path)
    assert built.of([], {}) == [SMALL, LARGE, OTHER]
    assert built.of(["k"], {"n": 9, "of_another": 1}) == [LARGE]
    with pytest.raises(DseError, match=r"k\.zip: kernel: found no x, expected one of k, j"):
        built.of(["x"], {})
    with pytest.raises(DseError, match=r"k\.zip: k: found no n=2, expected one of n=1; n=9"):
        built.of(["k"], {"n": 2})


def test_what_is_built_anew_takes_the_place_of_what_was():
    """Of the same case; all cases of a kernel that has changed go, since they would be refused."""
    again = replace(LARGE, compiler="C 2")
    assert together([SMALL, LARGE, OTHER], [again]) == [SMALL, again, OTHER]
    changed = replace(LARGE, digest="b")
    assert together([SMALL, LARGE, OTHER], [changed]) == [OTHER, changed]


def test_what_is_no_such_file(path: Path):
    with pytest.raises(DseError, match=r"none\.zip: found no file, expected what `dse measure build` wrote"):
        read(path.with_name("none.zip"))
    path.with_name("text.zip").write_text("text")
    with pytest.raises(DseError, match="cannot read: File is not a zip file"):
        read(path.with_name("text.zip"))
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    about = json.loads(parts["built.json"])
    old, few = ({**about, **changed} for changed in ({"format": 0}, {"codes": about["codes"][:1]}))
    for changed, message in (
        ({"built.json": json.dumps(old).encode()}, "format: found 0, expected 1; build it"),
        ({"built.json": json.dumps(few).encode()}, "list index out of range"),
        ({about["codes"][0]["file"]: b"other"}, "found code that was changed, expected"),
    ):
        with zipfile.ZipFile(path, "w") as file:
            for name, data in {**parts, **changed}.items():
                file.writestr(name, data)
        with pytest.raises(DseError, match=message):
            read(path)


def test_what_is_kept_of_code():
    made = Compiled(
        Binary("k", 90, b"", False, 32, 1000, 0), b"one", None, "", "C 1", 4, launched=FIRST.launched
    )
    too_much = Failure("too much shared memory", "found 50,152 B, expected 50,151 or less")
    clusters = Failure("not executed", "found clusters of blocks, expected none")
    assert code_of(made, 50152) == replace(FIRST, spill_bytes=4)
    assert code_of(made, 50151) == too_much
    assert code_of(replace(made, launched=Launched(128, 0, cluster=2)), 50152) == clusters
    assert code_of(NONE, 0) == NONE


def test_an_edited_kernel_is_another(tmp_path: Path):
    description = kernels.load("triton_softmax")
    assert description.source is not None
    digest = digest_of(description)
    assert digest == digest_of(kernels.load("triton_softmax"))
    other = tmp_path / "softmax.py"
    other.write_text(description.source.read_text())
    assert digest_of(replace(description, source=other)) == digest
    other.write_text(other.read_text() + "#")
    assert digest_of(replace(description, source=other)) != digest
    assert digest_of(replace(description, let=(("x", description.build.grid[0]),))) != digest  # type: ignore


@pytest.mark.slow
def test_triton_where_it_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Built by Triton, then planned and made ready without it."""
    pytest.importorskip("triton")
    monkeypatch.setenv("DSE_CACHE", str(tmp_path / "cache"))
    description = kernels.load("triton_softmax")
    sizes = description.sizes(columns=64)
    wanted = plan(description, sizes, GPU, 2, 0)
    messages: list[int] = []
    built = build(wanted, 90, GPU, messages.append, 1)
    assert sum(messages) == 2
    write(tmp_path / "built.zip", 90, [built])
    assert len(list((tmp_path).glob("*"))) == 2

    def gone() -> None:
        raise AssertionError

    monkeypatch.setattr(triton_function, "triton", gone)
    [read_again] = read(tmp_path / "built.zip").of(["triton_softmax"], {"columns": 64})
    there = plan(description, read_again.sizes, GPU, None, 5, read_again)
    assert sorted(map(str, there.parameters)) == sorted(map(str, wanted.parameters))
    for parameters, configuration, made in zip(
        there.parameters, there.configurations, there.code(90, range(2)), strict=True
    ):
        assert isinstance(made, Compiled)
        assert made.launched is not None
        assert made.launched.threads == 32 * parameters["num_warps"]
        arrays, numbers = (Passed(place, fractions=True) for place in range(2)), map(Passed, range(2, 4))
        assert made.launched.passed == (*arrays, *numbers, Passed(), Passed())
        assert (made.binary.kernel, made.binary.arch) == ("softmax", 90)
        assert configuration.grid == (-(-8192 // int(parameters["ROWS"])), 1, 1)
        assert b".debug_line" not in made.cubin

    with pytest.raises(DseError, match="triton_softmax: digest: found another than when it was built"):
        plan(description, sizes, GPU, None, 0, replace(read_again, digest="x"))
    rows = np.array([row["ROWS"] for row in there.parameters])
    few = replace(description, space=description.space.with_values({"ROWS": (int(rows[0]),)}))
    assert len(plan(few, sizes, GPU, None, 0, read_again).parameters) == (rows == rows[0]).sum()

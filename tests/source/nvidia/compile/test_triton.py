"""Triton kernels compiled for GPUs that are not there: the settings that Triton gets, and its messages."""

import pickle
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from dse.errors import DseError
from dse.source.contract import Failure, Passed, lasting
from dse.source.nvidia.compile import triton as subject
from dse.source.nvidia.compile.contract import Compiled
from dse.source.nvidia.compile.triton import Specialised, TritonSource
from dse.source.nvidia.compile.triton_function import function

pytest.importorskip("triton")

CODE = """
import triton
import triton.language as tl
from beside import twice
from not_there import limits

@triton.jit
def scale(out, x, n, stride, factor, BLOCK: tl.constexpr, UNROLL: tl.constexpr = 1):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at * stride, mask=at < n)
    tl.store(out + at, twice(values) * factor, mask=at < n)

@triton.jit(do_not_specialize=["n"])
def total(out, x, n, BLOCK: tl.constexpr, LEAST: tl.constexpr = limits().min):
    at = tl.arange(0, BLOCK)
    tl.store(out, tl.sum(tl.load(x + at, mask=at < n, other=0.0)))

@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["n"])})
@triton.jit
def whole(out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, 1.0, mask=at < n)

@triton.jit
def copy(out, x, BLOCK: tl.constexpr):
    out.store([tl.program_id(0) * BLOCK, 0], x.load([tl.program_id(0) * BLOCK, 0]))

def not_a_kernel():
    pass
"""
BESIDE = """
import triton

@triton.jit
def twice(x):
    return x + x
"""


@dataclass(frozen=True)
class Described:
    """A tensor descriptor as a configuration has it."""

    type: str
    block: tuple[int, ...]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))


@pytest.fixture
def file(tmp_path) -> Path:
    (tmp_path / "beside.py").write_text(BESIDE)
    path = tmp_path / "kernels.py"
    path.write_text(CODE)
    return path


def scale(file: Path) -> TritonSource:
    return subject.read_source(file, "scale", ("*float16", "*fp16:2", "", "", ""))


def settings(source: TritonSource, *arguments, **defines) -> dict:
    return dict(source.settings(tuple(defines.items()), arguments))


def test_values_specialise_as_triton_does(file):
    source = scale(file)
    actual = settings(source, None, None, 4096, 1, 2.0, BLOCK=128, num_warps=4)
    assert actual == {
        "BLOCK": 128,
        "UNROLL": 1,  # its default
        "num_warps": 4,
        "out": Specialised("*fp16", True),
        "x": Specialised("*fp16", False),  # `:2` says that addresses are multiples of 2 only
        "n": Specialised("i32", True),
        "stride": 1,  # a constant
        "factor": Specialised("fp32", False),
    }
    actual = settings(source, None, None, 2**40 + 1, 17, 2.0, BLOCK=128)
    assert (actual["n"], actual["stride"]) == (Specialised("i64", False), Specialised("i32", False))
    unspecialised = subject.read_source(file, "total", ("*fp32", "*fp32", ""))
    assert settings(unspecialised, None, None, 1, BLOCK=64)["n"] == Specialised("i32", False)


def test_it_specialises_as_triton_itself():
    native = pytest.importorskip("triton._C.libtriton").native_specialize_impl
    backend = pytest.importorskip("triton.backends.compiler").BaseBackend

    class Parameter:
        name, do_not_specialize, do_not_specialize_on_alignment = "n", False, False

    for value in (0, 1, 2, 16, -16, 100, 2**31 - 1, 2**31, 2**40, 2**63, True, 1.0):
        kind, known = native(backend, value, False, True, True)
        actual = subject.specialised(Parameter, "", value, "here")
        if kind == "constexpr":
            assert actual == value == 1
        else:
            assert actual == Specialised(kind, known == "D"), value


def test_the_launch_is_what_triton_says(file):
    source = scale(file)
    settings = source.settings((("BLOCK", 1024), ("num_warps", 8)), (None, None, 4096, 1, 2.0))
    made = source.compile(90, settings)
    assert isinstance(made, Compiled)
    assert (made.binary.kernel, made.binary.arch) == ("scale", 90)
    assert made.launched is not None
    assert (made.launched.threads, made.launched.shared_bytes, made.launched.cluster) == (256, 0, 1)
    # The stride is compiled in; the last two are memory that Triton may ask for.
    fractions = [Passed(place, fractions=True) for place in (0, 1)]
    assert made.launched.passed == (*fractions, Passed(2), Passed(4), Passed(), Passed())
    assert [parameter.size for parameter in made.binary.parameters] == [8, 8, 4, 4, 8, 8]
    total = subject.read_source(file, "total", ("*fp32", "*fp32", ""))
    made = total.compile(80, total.settings((("BLOCK", 1024), ("num_warps", 4)), (None, None, 1000)))
    assert isinstance(made, Compiled)
    assert made.launched is not None
    assert made.launched.shared_bytes >= 4 * 4  # a sum of each warp
    assert made.binary.shared_bytes == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arch", "first"), [(90, ["map"]), (80, ["pointer", *["shape"] * 2, *["stride"] * 2])]
)
def test_tensor_descriptors_become_what_the_code_takes(file, arch, first):
    source = subject.read_source(file, "copy", ("", ""))
    described = Described("float16", (64, 32))
    settings = source.settings((("BLOCK", 64),), (described, described))
    made = source.compile(arch, settings)
    assert isinstance(made, Compiled)
    assert made.launched is not None
    passed = made.launched.passed or ()
    assert [item.part for item in passed if item.argument == 0][: len(first)] == first
    assert len(passed) == len(made.binary.parameters)
    sizes = {"map": 128, "pointer": 8, "flag": 1, "stride": 8}
    for item, parameter in zip(passed, made.binary.parameters, strict=True):
        assert sizes.get(item.part, parameter.size) == parameter.size
    if arch == 90:
        assert [item.box for item in passed if item.part == "map"] == [(64, 32)] * 2


def test_what_its_passes_print_is_the_reason():
    """Triton's own error only says that they failed."""
    printed = "k.py:3:1: error: unsupported target: 'gfx90'\n^\nk.py:3:1: error: Failures have been detected"
    actual = subject._reason(RuntimeError("PassManager::run failed"), printed)
    assert actual == "unsupported target: 'gfx90'"
    printed = "assembler:6:2: error: unexpected token at start of statement\n        {  .reg .pred p; }\n  ^"
    actual = subject._reason(RuntimeError("LLVM 1: AMD assembler rejected generated AMDGCN"), printed)
    assert actual == "unexpected token at start of statement, at `{ .reg .pred p; }`"
    printed = "`ptxas` stderr:\nptxas fatal   : Unresolved extern function 'f'\n\nRepro command: ptxas -v\n"
    assert subject._reason(RuntimeError(printed), "") == "Unresolved extern function 'f'"


PRINTING = """
import triton
import triton.language as tl


@triton.jit
def masked(out, ALL: tl.constexpr):
    tl.static_print("compiled")
    at = tl.arange(0, 64)
    value = tl.load(out + at, mask=(at < 9) | ALL)
    tl.store(out + at, value)
"""


def test_what_it_prints_of_invalid_code_is_the_reason(tmp_path, capfd):
    """Triton prints the code, and its own error only says that it is invalid."""
    (tmp_path / "masked.py").write_text(PRINTING)
    source = subject.read_source(tmp_path / "masked.py", "masked", ("*float32",))
    made = source.compile(80, source.settings((("ALL", 1),), (None,)))
    assert isinstance(made, Failure)
    assert "must be 1-bit signless integer" in made.message
    assert made.message.endswith(", at `value = tl.load(out + at, mask=(at < 9) | ALL)`")
    assert capfd.readouterr().out == ""


def test_what_does_not_compile_is_a_result(file):
    source = scale(file)
    made = source.compile(80, source.settings((("BLOCK", 100),), (None, None, 4096, 1, 2.0)))
    assert isinstance(made, Failure)
    assert made.reason == "compile error"
    assert "kernels.py: scale: " in made.message
    assert "power of 2, at `at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)`" in made.message
    assert "\n" not in made.message


def test_the_digest_covers_what_the_kernel_calls(file):
    before = scale(file)
    assert pickle.loads(pickle.dumps(before)) == before
    (file.parent / "beside.py").write_text(BESIDE.replace("x + x", "x + x + x"))
    assert scale(file).digest != before.digest
    assert subject.read_source(file, "scale", ("*fp32", "*fp32", "", "", "")).digest != scale(file).digest


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        (CODE, "none", r"kernels.py: kernel: found no none, expected one of scale, total, whole, copy"),
        (CODE, "", r"kernels.py: kernel: found several, expected one of scale"),
        ("x = 1", "", r"kernels.py: kernel: found none, expected a function with @triton.jit"),
        ("def f(:", "", r"kernels.py: import: SyntaxError: invalid syntax"),
        (f"x = {'1+' * 1500}1", "", r"kernels.py: import: found code .*, expected at most 500 levels"),
        ("scale = 1", "scale", r"kernel: found scale, which is not Triton's, expected a function"),
        ("scale = other()", "scale", r"found scale, which is not there \(NameError: name 'other'"),
    ],
)
def test_mistakes_are_reported_in_one_line(file, text, name, message):
    file.write_text(text)
    with pytest.raises(DseError, match=message):
        function(file, name)


def test_what_is_missing_is_named(file):
    source = scale(file)
    with pytest.raises(DseError, match=r"scale: constants: found no value of BLOCK"):
        settings(source, None, None, 1, 1, 1.0)
    with pytest.raises(DseError, match=r"arguments: found 1, expected 5: out, x, n, stride, factor"):
        settings(source, None)
    with pytest.raises(DseError, match=r"scale: out: found no type, expected one such as \*fp16"):
        settings(subject.read_source(file, "scale"), None, None, 1, 1, 1.0)
    with pytest.raises(DseError, match=r"scale: out: found '\*fp16:index', expected a type and its"):
        settings(
            subject.read_source(file, "scale", ("*fp16:index", "*fp16", "i32", "i32", "fp32")), *[None] * 5
        )
    with pytest.raises(DseError, match=r"found the constant 'WIDTH', expected one of BLOCK, UNROLL"):
        subject.read_source(file, "scale", (), ("WIDTH=4",))


def test_without_triton_it_says_what_to_install(file, monkeypatch):
    from dse.source.nvidia.compile import triton_function

    def missing(name: str):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(triton_function, "import_module", missing)
    with pytest.raises(DseError, match=r'triton: found none, expected the extra "triton": pip install'):
        function(file, "scale")


def test_a_compiler_that_does_not_end_is_ended(tmp_path, monkeypatch):
    (tmp_path / "k.py").write_text(CODE)
    (tmp_path / "beside.py").write_text(BESIDE)
    source = subject.read_source(tmp_path / "k.py", "total", ["*fp32", "*fp32", "i32"], ["BLOCK=32"])
    settings = source.settings((), (None, None, 9))
    monkeypatch.setattr(subject, "_compiled", lambda *given: time.sleep(60))
    monkeypatch.setenv("DSE_COMPILE_SECONDS", "0.2")
    stopped = source.compile(80, settings)
    message = "k.py: total: the compiler ended after 0.2 s (DSE_COMPILE_SECONDS)"
    assert stopped == Failure("compiler stopped", message)
    assert not lasting(stopped)

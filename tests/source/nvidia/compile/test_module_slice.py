"""Kernels read as they stand in a package: what of its modules is evaluated, and what has a stand-in."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from packaging.version import Version

from dse.errors import DseError
from dse.source.nvidia.compile import absent
from dse.source.nvidia.compile.triton_function import function, names_in

pytest.importorskip("triton")

UTILS = """
import logging
import os
import subprocess
import torch
from some_package import Registry
from triton_placeholder import Placeholder

subprocess.run(["touch", FOLDER + "/ran"])
logger = logging.getLogger(__name__)
FLAG = os.environ.get("NO_SUCH_FLAG", "0") == "1"
HOPPER = torch.cuda.get_device_capability()[0] == 9
AMD = torch.version.hip is not None

if Registry.has_triton():
    import triton
    import triton.language as tl
else:
    triton = tl = Placeholder()

WARPS = [2, 4] if HOPPER else [8]
CONFIGS = []
for _block in (64, 128):
    CONFIGS.append(triton.Config({"BLOCK": _block}, num_warps=WARPS[0]))

def configs():
    import torch
    return [each for each in CONFIGS if not torch.version.hip]

try:
    from triton.language.extra.nowhere import half
except ImportError:
    @triton.jit
    def half(x):
        return x * SCALE

SCALE: tl.constexpr = 0.5 if not AMD else 2.0
"""
KERNEL = """
from __future__ import annotations
import torch
import torch.nn as nn
import triton
import triton.language as tl
from .. import utils
from ..utils import configs, half
from pkg.deep.only import *

@nn.no_such_decorator("name")
@triton.heuristics({"HAS_BIAS": lambda args: args["bias"] is not None})
@triton.autotune(configs=configs(), key=["n", "renamed"])
@triton.jit
def scale(out, x, bias, n, BLOCK: tl.constexpr, HAS_BIAS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = half(tl.load(x + at, mask=at < n)) + utils.SCALE
    if HAS_BIAS:
        value += tl.load(bias + at, mask=at < n)
    tl.store(out + at, clamped(value), mask=at < n)

if torch.cuda.get_device_capability() >= (10, 0):
    @triton.jit
    def newest(x):
        tl.store(x, 1)

@triton.autotune(configs=[triton.Config({"BLOCK": nowhere}) for _ in range(2)], key=[])
@triton.jit
def untuned(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), 1)

class Layer(nn.Module):
    weight = nn.Parameter(torch.ones(2))

raise RuntimeError("modules of packages do much when they are imported")
"""
ONLY = """
import triton
@triton.jit
def clamped(x):
    return triton.language.maximum(x, 0.0)
"""


ASKS = """
import triton

TARGET = triton.runtime.driver.active.get_current_target()
ANSWERS = (TARGET.backend, TARGET.warp_size)

@triton.jit
def of(x):
    triton.language.store(x, ANSWERS)
"""
PLATFORMS = (absent.Platform(), absent.Platform("hip", 64))


@pytest.fixture
def package(tmp_path) -> Path:
    for name, text in (("pkg/utils.py", f"FOLDER = {str(tmp_path)!r}\n{UTILS}"),
                       ("pkg/ops/layer.py", KERNEL), ("pkg/deep/only.py", ONLY)):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))


def test_a_kernel_is_read_without_what_its_package_needs(package, capfd):
    actual = function(package / "pkg/ops/layer.py", "scale")
    assert [(config.kwargs["BLOCK"], config.num_warps) for config in actual.configs] == [(64, 8), (128, 8)]
    assert list(actual.heuristics) == ["HAS_BIAS"]
    assert actual.jit.cache_key  # Triton finds all that it names
    assert actual.path == package / "pkg/ops/layer.py"
    assert not (package / "ran").exists()
    assert capfd.readouterr() == ("", "")
    capability = "torch.cuda.get_device_capability()[...], which is not there, counts as false"
    assert capability in actual.notes


def test_queries_about_the_machine_are_answered_for_the_vendor(package):
    path = package / "pkg/ops/layer.py"
    here, amd = function(path, "scale"), function(path, "scale", absent.Platform("hip", 64))
    assert [len(kernel.configs) for kernel in (here, amd)] == [2, 1]  # Triton's own, of an empty list
    (package / "pkg/asks.py").write_text(ASKS)
    constants = [function(package / "pkg/asks.py", "of", seen).jit for seen in PLATFORMS]
    assert [kernel.fn.__globals__["ANSWERS"] for kernel in constants] == [("cuda", 32), ("hip", 64)]


def test_threads_read_in_turn(package):
    path = package / "pkg/ops/layer.py"
    with ThreadPoolExecutor(4) as threads:
        names = ["scale", "newest", "untuned"] * 4
        assert [read.name for read in threads.map(partial(function, path), names)] == names


def test_what_no_condition_lets_run_is_read_where_it_is_asked_for(package):
    path = package / "pkg/ops/layer.py"
    assert function(path, "newest").name == "newest"
    assert names_in(path) == ["scale", "newest", "untuned"]
    assert names_in(package / "pkg/utils.py") == ["half"]
    kernel = f"{ONLY}\n@triton.jit\ndef kernel(x):\n    clamped(x)\n"
    (package / "pkg/one.py").write_text(kernel)
    assert function(package / "pkg/one.py").name == "kernel"
    (package / "pkg/two.py").write_text(f"{ONLY}\n@triton.jit\ndef kernel(clamped):\n    clamped + 1\n")
    assert names_in(package / "pkg/two.py") == ["clamped", "kernel"]


def test_a_decorator_that_fails_is_passed_over_and_named(package):
    actual = function(package / "pkg/ops/layer.py", "untuned")
    assert actual.configs == ()
    assert any("triton.autotune(" in note and "'nowhere' is not defined" in note for note in actual.notes)


def test_versions_are_compared_as_such_and_types_have_limits():
    assert absent.Absent("utils.Version")("2.10.0") > absent.Absent("Version")("2.9")
    assert absent.Absent("parse_version")(absent.stand_in("torch").__version__) >= Version("2.0")
    torch = absent.stand_in("torch")
    assert (torch.finfo(torch.float8_e4m3fn).max, torch.iinfo(torch.short).min) == (448.0, -(2**15))
    assert isinstance(torch.iinfo(torch.float16).max, absent.Absent)
    absent.noted.clear()
    assert list(range(absent.Absent("devices"))) == []
    assert list(absent.noted) == ["devices, which is not there, counts as false"]


def test_an_edited_file_of_the_package_is_read_again(package):
    path = package / "pkg/ops/layer.py"
    before = function(path, "scale").jit.cache_key
    (package / "pkg/deep/only.py").write_text(ONLY.replace("0.0", "1.0"))
    assert function(path, "scale").jit.cache_key != before


@pytest.mark.parametrize(
    "text",
    [
        'open("ran", "w")',
        '__import__("os").system("touch ran")',
        'import_module("subprocess").run(["touch", "ran"])',
        'eval("1")',
        "print('loud') or 1 / 0",
    ],
)
def test_constants_reach_no_files_or_programs(tmp_path, monkeypatch, capfd, text):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "k.py"
    path.write_text(f"from importlib import import_module\nkernel = {text}\n")
    with pytest.raises(DseError, match=r"k.py: kernel: found kernel, which is not there \("):
        function(path, "kernel")
    assert not (tmp_path / "ran").exists()
    assert capfd.readouterr() == ("", "")


def test_an_attribute_that_has_every_attribute_is_no_kernel(tmp_path):
    (tmp_path / "k.py").write_text(
        "class Anything:\n    def __getattr__(self, name):\n        return Anything()\nkernel = Anything()\n"
    )
    with pytest.raises(DseError, match=r"found kernel, which is not Triton's"):
        function(tmp_path / "k.py", "kernel")

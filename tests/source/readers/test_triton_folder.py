"""Folders of compiled code as Triton keeps them."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dse.errors import DseError
from dse.hardware import gpus
from dse.source.contract import Failure
from dse.source.launches import Descriptor, configurations
from dse.source.nvidia.arguments import as_launched, launch_of
from dse.source.nvidia.compile.triton_function import function
from dse.source.nvidia.source import source_of
from dse.source.readers import Given, load

triton = pytest.importorskip("triton")

FILE = Path(__file__).with_name("triton_kernels.py")
GPU = gpus.load("h100-sxm").gpu


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """What Triton keeps of two kernels: one with two configurations, and another that moves boxes."""
    path = tmp_path_factory.mktemp("triton")
    compiler, target = triton.compiler, triton.backends.compiler.GPUTarget("cuda", 90, 32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(path))
        patch.setenv("TRITON_DEFAULT_FP_FUSION", "1")  # else it warns that its default will change
        add, types = function(FILE, "add").jit, {"out": "*fp32", "x": "*fp32", "n": "i32"}
        types |= {"BLOCK": "constexpr", "EVEN": "constexpr"}
        for warps in (4, 8):
            constants = {"BLOCK": 1024, "EVEN": False}
            compiler.compile(compiler.ASTSource(add, types, constants, {}), target, {"num_warps": warps})
        block = "tensordesc<fp16[64, 64]>"
        types = {"out": block, "x": block, "rows": "i32", "BLOCK_M": "constexpr", "BLOCK_N": "constexpr"}
        constants = {"BLOCK_M": 64, "BLOCK_N": 64}
        move = function(FILE, "move").jit
        compiler.compile(compiler.ASTSource(move, types, constants, {}), target, {})
    return path


@pytest.mark.slow
def test_each_cubin_is_a_configuration(folder):
    arguments = Given(grid=("cdiv(n, 1024)",), sizes=(("n", 100_000),))
    description = load(f"{folder}:add", arguments)
    columns = description.space.configurations(description.sizes())
    assert columns["binary"].tolist() == [1, 2]
    assert sorted(columns["num_warps"].tolist()) == [4, 8]
    wanted, source = configurations(description, columns, description.sizes(), GPU), source_of(description)
    assert source.names == ("out", "x", "n")
    for warps, configuration in zip(columns["num_warps"].tolist(), wanted, strict=True):
        settings = source.settings(configuration.defines, configuration.arguments)
        made = source.compile(90, settings)
        assert not isinstance(made, Failure)
        launched = as_launched(made, configuration)
        assert (launched.block, launched.grid) == ((32 * warps, 1, 1), (98, 1, 1))
        assert launched.arguments == (None, None, 100_000, None, None)
        refused = source.compile(80, settings)
        assert isinstance(refused, Failure)
        assert "found sm_90, expected sm_80" in refused.message


def test_the_shape_of_a_descriptor_is_given(folder):
    arguments = Given(grid=(4,), arguments=("rows,64", "x=rows,64"), sizes=(("rows", 256),), function="move")
    description = load(folder, arguments)
    columns = description.space.configurations(description.sizes())
    [wanted] = configurations(description, columns, description.sizes(), GPU)
    made = source_of(description).compile(90, (("binary", 1),))
    assert not isinstance(made, Failure)
    launched = as_launched(made, wanted)
    assert launched.arguments[0] == Descriptor("fp16", (256, 64), (64, 1), (64, 64))
    assert launched.arguments[1:5] == (256, 64, 64, 1)
    assert len(launch_of(made, launched).arguments) == len(made.binary.parameters)
    own = replace(made, launched=None, binary=replace(made.binary, cluster=(2, 2, 1)))
    with pytest.raises(DseError, match=r"grid: found \(4, 1, 1\), expected multiples .*\(2, 2, 1\)"):
        launch_of(own, launched)


def test_a_single_cubin_is_one_configuration(folder, run_dse, own_cache, tmp_path):
    shutil.copy(next(folder.glob("*/add.cubin")), tmp_path / "add.cubin")
    command = ("rank", str(tmp_path / "add.cubin"), "-g", "h100-sxm", "--grid", "98", "--block", "128")
    arguments = ("--arg", "?", "--arg", "?", "--arg", "100000", "--shared", "0", "-m", "volkov")
    ran = run_dse(*command, *arguments, "--json")
    assert (ran.code, ran.err) == (0, "")
    [row] = json.loads(ran.out)
    assert row["threads"] == 128
    assert np.isfinite(row["time_s"])


@pytest.mark.slow
def test_code_for_amd_is_read_as_when_it_was_compiled(run_dse, monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    launch = ("-g", "mi300x", "--grid", "98", "--set", "n=100000", "--json")
    constants = ("--constexpr", "BLOCK=1024", "--constexpr", "EVEN=0", "--num-warps", "4,8")
    signature = ("--signature", "*fp32,*fp32,i32")
    made, kept = (
        {row["num_warps"]: row["time_s"] for row in json.loads(run_dse("rank", *command, *launch).out)}
        for command in ((f"{FILE}:add", *constants, *signature), (f"{tmp_path}:add",))
    )
    assert kept == made
    assert kept.keys() == {4, 8}
    refused = run_dse("rank", f"{tmp_path}:add", "-g", "w7900", *launch[2:])
    assert "found gfx1100, expected one of gfx942 (" in refused.err
    refused = run_dse("rank", f"{tmp_path}:add", "-g", "h100-sxm", *launch[2:])
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "architecture: found gfx942, expected code in .cubin files" in refused.err
    next(tmp_path.glob("*/add.amdgcn")).write_text("")
    refused = run_dse("rank", f"{tmp_path}:add", *launch)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "add.amdgcn: found no .amdgcn_target, expected assembly" in refused.err


def test_mistakes(folder, tmp_path):
    with pytest.raises(DseError, match=r"kernel: found several, expected one of .*add.* \(given.function\)"):
        load(folder, Given(grid=(1,)))
    with pytest.raises(DseError, match=r"kernel: found no total, expected one of"):
        load(folder, Given(grid=(1,), function="total"))
    with pytest.raises(DseError, match=r"given.grid: found none for"):
        load(f"{folder}:add")
    with pytest.raises(DseError, match=r"given.block: found it with .*: Triton's .json says it"):
        load(f"{folder}:add", Given(grid=(1,), block=(32,)))
    with pytest.raises(DseError, match=r"found no .cubin or .amdgcn with Triton's .json beside it"):
        load(tmp_path)
    (tmp_path / "k.cubin").write_bytes(b"")


KNOWN = '"name": "k", "shared": 0'


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[]", r"top level: found \[\], expected "),
        ("{", r"is not JSON"),
        (f'{{{KNOWN}, "num_warps": 4}}', r"target: found nothing, expected a value"),
        (f'{{{KNOWN}, "num_warps": 4, "target": {{"arch": "gfx"}}}}', r"target\.arch: found 'gfx'"),
        (
            f'{{{KNOWN}, "num_warps": 0, "target": {{"arch": 90}}}}',
            r"num_warps: found 0, expected .*equal to 1",
        ),
    ],
)
def test_a_json_that_is_not_triton_s(tmp_path, text, line):
    (tmp_path / "k.cubin").write_bytes(b"")
    (tmp_path / "k.json").write_text(text)
    with pytest.raises(DseError, match=rf"k\.json: {line}"):
        load(tmp_path)


def test_a_cubin_without_the_kernel_that_its_json_names(folder, tmp_path):
    cubin = next(folder.glob("*/add.cubin"))
    shutil.copy(cubin, tmp_path / "other.cubin")
    stated = json.loads(cubin.with_suffix(".json").read_text()) | {"name": "other"}
    (tmp_path / "other.json").write_text(json.dumps(stated))
    source = source_of(load(tmp_path, Given(grid=(1,))))
    with pytest.raises(DseError, match=r"other\.cubin: kernel: found add, expected other"):
        source.compile(90, (("binary", 1),))


def test_a_folder_that_is_edited_is_read_anew(folder, tmp_path):
    """In one process too, and nothing that was kept of it counts."""
    kept = next(folder.glob("*/add.cubin")).parent
    for file in kept.glob("add.*"):
        shutil.copy(file, tmp_path)
    before = source_of(load(tmp_path, Given(grid=(1,), sizes=(("n", 100_000),))))
    assembly = tmp_path / "add.ttir"
    assembly.write_text(assembly.read_text().replace("%n: i32", "%count: i32"))
    after = source_of(load(tmp_path, Given(grid=(1,), sizes=(("count", 100_000),))))
    assert (before.names, after.names) == (("out", "x", "n"), ("out", "x", "count"))
    assert before.digest != after.digest


def test_fewer_arguments_than_the_code_takes(folder):
    arguments = Given(grid=(1,), sizes=(("n", 100_000),))
    description = load(f"{folder}:add", arguments)
    columns, source = description.space.configurations(description.sizes()), source_of(description)
    wanted = configurations(description, columns, description.sizes(), GPU)[0]
    made = source.compile(90, source.settings(wanted.defines, wanted.arguments))
    assert not isinstance(made, Failure)
    with pytest.raises(DseError, match="arguments: found 1, expected 3"):
        as_launched(made, replace(wanted, arguments=wanted.arguments[:1]))

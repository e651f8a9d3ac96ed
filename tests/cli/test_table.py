"""`dse table`: what is printed and what is written."""

import json
import sys

import pytest

from dse.bridges.tables import FORMATS, BestConfigurations
from dse.explore.matrix.table import Kernel

SIZES = [word for size in ("E=8", "N=1024", "K=2048", "topk=2") for word in ("--set", size)]
MOE = ("table", "moe", "--gpu", "h20", *SIZES)
GEMM = ("table", "gemm", "-g", "rtx-3090", "--for", "m=1024,4096", "--set", "SA=1", "--set", "SB=1")
TILE = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K")
HEADER = "M,BLOCK_SIZE_M,BLOCK_SIZE_N,BLOCK_SIZE_K,GROUP_SIZE_M,num_warps,num_stages,us"


@pytest.mark.slow
def test_a_dense_product_beside_the_library(answer):
    [row] = answer("table", "mm", "-g", "a100-sxm", "--set", "N=4096", "--set", "K=4096", "--for", "M=64")
    assert row["low_s"] < row["time_s"] < row["high_s"]
    assert 1e-5 < row["library_s"] < 1e-3


def test_layers_take_longer_and_a_file_is_written_where_it_is_looked_for(answer, run_dse, tmp_path):
    few, many = answer(*MOE, "--for", "M=1,8192")
    assert few["time_s"] + 5e-6 < few["layer_s"] < few["time_s"] + 1e-4
    assert many["layer_s"] > many["time_s"] + few["layer_s"] - few["time_s"]
    single = ("--for", "M=16", "--dtype", "fp8_w8a8", "--format")
    ran = run_dse(*MOE, *single, "vllm", "-o", tmp_path / "new")
    path = tmp_path / "new" / "E=8,N=1024,device_name=NVIDIA_H20,dtype=fp8_w8a8.json"
    assert (ran.code, ran.out, ran.err) == (0, f"{path}\n", "")
    assert list(json.loads(path.read_text())) == ["16"]
    assert run_dse(*MOE, *single, "sglang").out == path.read_text()


@pytest.mark.parametrize(("gpu", "device"), [("a100-pcie-80-gb", "NVIDIA_A100_80GB_PCIe"), ("mi250x", "")])
def test_a_file_is_named_after_the_name_that_the_driver_reports(run_dse, tmp_path, gpu, device):
    ran = run_dse("table", "moe", "-g", gpu, *SIZES, "--for", "M=16", "--format", "vllm", "-o", tmp_path)
    assert f"device_name={device}" in ran.out
    assert ("warning: --device: found none, and no name that the driver" in ran.err) == (not device)


def test_the_tuned_file_that_an_installed_reader_ships_is_compared(tmp_path, monkeypatch):
    tiles = [{"M": m} | dict(zip(TILE, (16, 64, 64), strict=True)) for m in (1, 2, 4)]
    kernel = Kernel("moe", {"E": 8, "N": 1024, "K": 7168, "topk": 8}, "fp8_w8a8", (128, 128))
    rows = [[tile] for tile in tiles]
    table = BestConfigurations("moe", "H20", ["M"], TILE, rows, kernel, reported="NVIDIA H20")
    assert FORMATS["vllm"].shipped(table) == ""
    folder = tmp_path / "vllm" / "configs"
    folder.mkdir(parents=True)
    (tmp_path / "vllm" / "__init__.py").touch()
    path = folder / FORMATS["vllm"].file_name(table)
    theirs = dict(zip(TILE, (16, 64, 64), strict=True))
    path.write_text(json.dumps({"1": theirs, "2": theirs | {"BLOCK_SIZE_N": 128}, "8": theirs}))
    monkeypatch.syspath_prepend(tmp_path)
    expected = f"vllm ships a tuned one, with the same tile for 1 of 2: {path}"
    assert FORMATS["vllm"].shipped(table) == expected


def test_measured_times_are_used(run_dse, answer, tmp_path):
    times, fast = tmp_path / "times.csv", 0.1  # microseconds
    times.write_text(f"{HEADER}\n64,16,32,64,32,8,2,{fast}\n64,16,128,64,1,4,3,{2 * fast}\n")
    words = (*MOE, "--for", "M=64", "--measured", times)
    [measured] = answer(*words)
    assert (measured["BLOCK_SIZE_N"], measured["GROUP_SIZE_M"], measured["by"]) == (32, 32, "measured")
    assert measured["time_s"] == pytest.approx(1e-6 * fast)
    file = json.loads(run_dse(*words, "--format", "vllm").out)
    assert (file["64"]["num_stages"], "by" in file["64"]) == (2, False)


def test_a_command_measures(run_dse, tmp_path):
    journal = tmp_path / "table.jsonl"
    code = "import sys; print(1 + abs(int(sys.argv[1]) - 64) / 64 + int(sys.argv[2]) / 100)"
    command = f"{sys.executable} -S -c '{code}' {{BLOCK_SIZE_N}} {{num_stages}}"
    words = ("--budget", "3", "--unit", "us", "--journal", journal, "--for", "M=16,32", "--command", command)
    ran = run_dse(*MOE, *words, "--json")
    assert ran.code == 0, ran.err
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [line["parameters"]["M"] for line in lines] == [16] * 3 + [32] * 3
    for row in json.loads(ran.out):
        times = [line["seconds"] for line in lines if line["parameters"]["M"] == row["M"]]
        if row["by"] == "measured":
            assert row["time_s"] == pytest.approx(min(times))
        else:  # expected to be faster than those that were
            assert row["time_s"] < min(times)


@pytest.mark.slow
def test_any_kernel_for_each_of_its_sizes(run_dse, answer, tmp_path):
    rows = answer(*GEMM, "--for", "n=2048")
    assert [(row["m"], row["n"]) for row in rows] == [(1024, 2048), (4096, 2048)]
    ranked, *_ = answer("rank", *GEMM[1:4], "--set", "m=4096", "--set", "n=2048", *GEMM[6:])
    assert {name: ranked[name] for name in rows[1]} == rows[1]
    ran = run_dse(*GEMM, "--format", "triton", "-o", tmp_path)
    path = tmp_path / "gemm on NVIDIA GeForce RTX 3090.py"
    assert (ran.code, ran.out) == (0, f"{path}\n")
    assert path.read_text().count("triton.Config(") == 2


def test_products_of_a_list_as_each_compiler_reads_them(run_dse, answer, tmp_path):
    (tmp_path / "shapes.csv").write_text("M,N,K\n16,2048,4096\n512,512,512\n")
    words = ("-g", "h100-sxm", "--shapes", tmp_path / "shapes.csv")
    shown = answer("table", "product", *words, "--first", "2")
    assert [row["M"] for row in shown] == [16, 16, 512, 512]
    path = tmp_path / "new" / "table.json"
    ran = run_dse("table", "inductor", *words, "--first", "1", "-o", path)
    assert (ran.code, ran.out, ran.err) == (0, f"{path}\n", "")
    [[first], _] = json.loads(path.read_text()).values()
    assert first["BLOCK_N"] == shown[0]["BLOCK_SIZE_N"]
    same = run_dse("table", "product", *words, "--first", "1", "--format", "inductor")
    assert same.out == path.read_text()

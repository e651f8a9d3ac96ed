"""`dse table`: what is printed and written, and mistakes in one line."""

import json
import sys

import pytest

from dse.bridges.tables import FORMATS

MOE = [
    "table",
    "moe",
    "--gpu",
    "h20",
    *[word for size in ("E=8", "N=1024", "K=2048", "topk=2") for word in ("--set", size)],
]


def test_a_table_with_times(run_dse):
    ran = run_dse(*MOE, "--for", "M=1,512", "--json")
    assert (ran.code, ran.err) == (0, "")
    rows = json.loads(ran.out)
    assert [row["M"] for row in rows] == [1, 512]
    assert rows[0]["BLOCK_SIZE_M"] == 16 < rows[1]["BLOCK_SIZE_M"]
    assert 0 < rows[0]["time_s"] < rows[1]["time_s"] < 1


def test_a_dense_product_beside_the_library(run_dse):
    ran = run_dse(
        "table", "mm", "-g", "a100-sxm", "--set", "N=4096", "--set", "K=4096", "--for", "M=64", "--json"
    )
    assert (ran.code, ran.err) == (0, "")
    [row] = json.loads(ran.out)
    assert row["low_s"] < row["time_s"] < row["high_s"]
    assert 1e-5 < row["library_s"] < 1e-3


def test_a_file_is_written_where_it_is_looked_for(run_dse, tmp_path):
    ran = run_dse(
        *MOE, "--for", "M=16", "--dtype", "fp8_w8a8", "--format", "vllm", "-o", str(tmp_path / "new")
    )
    assert (ran.code, ran.err) == (0, "")
    path = tmp_path / "new" / "E=8,N=1024,device_name=NVIDIA_H20,dtype=fp8_w8a8.json"
    assert ran.out == f"{path}\n"
    assert list(json.loads(path.read_text())) == ["16"]
    printed = run_dse(*MOE, "--for", "M=16", "--dtype", "fp8_w8a8", "--format", "sglang")
    assert printed.out == path.read_text()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--for", "N=1"], "--for: found 'N=1', expected M= and whole numbers of at least 1, as M=1,2,4"),
        (["--for", "M=0,1"], "--for: found 'M=0,1', expected M= and whole numbers of at least 1, as M=1,2,4"),
        (["--block", "128"], "--block: found '128', expected two numbers, as 128x128"),
        (
            ["--dtype", "fp4"],
            "--dtype: found 'fp4', expected one of bf16, fp16, fp8_w8a8, int8_w8a8, int8_w8a16",
        ),
        (["--journal", "j"], "--journal: found without --command, expected both"),
        (["--budget", "3"], "--budget: found without --command, expected both"),
        (["--command", "x {M}", "--unit", "h"], "--unit: found 'h', expected one of s, ms, us, ns"),
        (
            ["--command", "x {E}"],
            "--command: found {E}, expected one of M, BLOCK_SIZE_M, BLOCK_SIZE_N, BLOCK_SIZE_K, "
            "GROUP_SIZE_M, num_warps, num_stages",
        ),
        (
            ["--format", "trt"],
            f"--format: found 'trt', expected one of {', '.join(FORMATS)}; did you mean triton?",
        ),
        (
            ["-o", "here"],
            f"--out: found without --format, expected --format {' or '.join(FORMATS)}",
        ),
        (["--set", "M=3"], "--set: M: unknown, expected E, N, K, topk"),
    ],
)
def test_mistakes_are_told(run_dse, words: list[str], line: str):
    ran = run_dse(*MOE, *words)
    assert (ran.code, ran.err) == (2, f"dse: {line}\n")


def test_the_kernel_has_two_names(run_dse):
    one, other = (run_dse("table", name, *MOE[2:], "--for", "M=1", "--csv") for name in ("moe", "fused_moe"))
    assert (one.code, one.out) == (0, other.out)


def test_a_file_where_the_folder_would_be(run_dse, tmp_path):
    taken = tmp_path / "taken"
    taken.write_text("mine")
    ran = run_dse(*MOE, "--for", "M=16", "--format", "vllm", "-o", str(taken))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"dse: --out: found '{taken}', expected a folder")
    assert taken.read_text() == "mine"


HEADER = "M,BLOCK_SIZE_M,BLOCK_SIZE_N,BLOCK_SIZE_K,GROUP_SIZE_M,num_warps,num_stages,us"


def test_measured_times_are_used(run_dse, tmp_path):
    plain = json.loads(run_dse(*MOE, "--for", "M=64,512", "--json").out)
    fast = 0.5e6 * plain[0]["time_s"]
    times = tmp_path / "times.csv"
    times.write_text(f"{HEADER}\n64,16,32,64,32,8,2,{fast}\n64,16,128,64,1,4,3,{2 * fast}\n")
    words = (*MOE, "--for", "M=64,512", "--measured", str(times))
    ran = run_dse(*words, "--json")
    assert (ran.code, ran.err) == (0, "")
    measured, corrected = json.loads(ran.out)
    assert (measured["BLOCK_SIZE_N"], measured["GROUP_SIZE_M"], measured["by"]) == (32, 32, "measured")
    assert measured["time_s"] == pytest.approx(1e-6 * fast)
    assert corrected["by"] == "corrected"
    assert corrected["time_s"] < plain[1]["time_s"]  # what was measured was faster than predicted
    file = json.loads(run_dse(*words, "--format", "vllm").out)
    assert file["64"]["num_stages"] == 2
    assert "by" not in file["64"]


def test_bad_measured_times_are_told(run_dse, tmp_path):
    times = tmp_path / "times.csv"
    times.write_text(f"{HEADER}\n64,16,32,64,32,8,2,nan\n")
    ran = run_dse(*MOE, "--measured", str(times))
    expected = "us, row 1: found no number, expected a time above 0, or inf where it did not run"
    assert (ran.code, ran.err) == (2, f"dse: {times}: {expected}\n")


def test_a_command_measures(run_dse, tmp_path):
    journal = tmp_path / "table.jsonl"
    code = "import sys; print(1 + abs(int(sys.argv[1]) - 64) / 64 + int(sys.argv[2]) / 100)"
    words = ["--budget", "6", "--unit", "us", "--journal", str(journal), "--for", "M=16,32", "--json"]
    ran = run_dse(
        *MOE, *words, "--command", f"{sys.executable} -S -c '{code}' {{BLOCK_SIZE_N}} {{num_stages}}"
    )
    assert ran.code == 0, ran.err
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [line["parameters"]["M"] for line in lines] == [16] * 6 + [32] * 6
    for row in json.loads(ran.out):
        times = [line["seconds"] for line in lines if line["parameters"]["M"] == row["M"]]
        assert row["by"] == "measured"
        assert row["time_s"] == pytest.approx(min(times))


GEMM = ("table", "gemm", "-g", "rtx-3090", "--for", "m=1024,4096", "--set", "SA=1", "--set", "SB=1")


def test_any_kernel_for_each_of_its_sizes(run_dse):
    ran = run_dse(*GEMM, "--for", "n=2048", "--json")
    assert (ran.code, ran.err) == (0, "")
    rows = json.loads(ran.out)
    assert [(row["m"], row["n"]) for row in rows] == [(1024, 2048), (4096, 2048)]
    ranked = json.loads(
        run_dse("rank", *GEMM[1:4], "--set", "m=4096", "--set", "n=2048", *GEMM[6:], "--json").out
    )
    assert rows[1]["time_s"] == ranked[0]["time_s"]
    assert {name: ranked[0][name] for name in rows[1]} == rows[1]


def test_any_kernel_as_files(run_dse, tmp_path):
    ran = run_dse(*GEMM, "--format", "triton", "-o", str(tmp_path))
    path = tmp_path / "gemm on NVIDIA GeForce RTX 3090.py"
    assert (ran.code, ran.out) == (0, f"{path}\n")
    assert path.read_text().count("triton.Config(") == 2
    moe = run_dse(*MOE, "--for", "M=1,512", "--format", "json")
    assert [row["size"] for row in json.loads(moe.out)] == [{"M": 1}, {"M": 512}]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("gemm",), "--for: found none, expected NAME=V1,V2,... of m, n, k"),
        (("gemm", "--for", "l=1"), "--for: found 'l', expected one of m, n, k"),
        (("gemm", "--for", "m"), "--for: found 'm', expected NAME=V1,V2,..."),
        (("gemm", "--for", "m=1", "--format", "vllm"), "--format: vllm: found with gemm, expected moe"),
        (
            ("gemm", "--for", "m=1", "--format", "inductor"),
            "--format: inductor: found with gemm, expected product",
        ),
        (
            ("gemm", "--for", "m=1", "--shapes", "s.csv"),
            "--shapes: found with gemm, expected it with product",
        ),
        (
            ("product", "--first", "3"),
            "--shapes: found none, expected a file with columns M, N and K, or a log",
        ),
        (("inductor", "--format", "csv"), "--format: found 'csv' with inductor, expected none"),
        (("product", "--block", "128x128"), "--block: found with product, expected it with moe or w8a8"),
        (("gemm", "--for", "m=1", "--command", "x"), "--command: found with gemm, expected it with moe"),
        (("moe", "--model", "phase"), "--model: found with moe, expected another kernel"),
    ],
)
def test_mistakes_with_any_kernel(run_dse, words, line):
    ran = run_dse("table", words[0], "-g", "a4000", *words[1:])
    assert (ran.code, ran.out) == (2, "")
    assert line in ran.err


def test_products_of_a_list_as_each_compiler_reads_them(run_dse, tmp_path):
    shapes = tmp_path / "shapes.csv"
    shapes.write_text("M,N,K\n16,2048,4096\n512,512,512\n")
    words = ("-g", "h100-sxm", "--shapes", str(shapes))
    shown = json.loads(run_dse("table", "product", *words, "--first", "2", "--json").out)
    assert [row["M"] for row in shown] == [16, 16, 512, 512]
    path = tmp_path / "new" / "table.json"
    ran = run_dse("table", "inductor", *words, "--first", "1", "-o", str(path))
    assert (ran.code, ran.out, ran.err) == (0, f"{path}\n", "")
    [[first], _] = json.loads(path.read_text()).values()
    assert first["BLOCK_N"] == shown[0]["BLOCK_SIZE_N"]
    same = run_dse("table", "product", *words, "--first", "1", "--format", "inductor")
    assert same.out == path.read_text()

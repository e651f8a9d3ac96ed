"""`dse report`: from a sweep and other results to one page."""

import json
import re

import pytest


def data_of(path):
    text = re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(), re.S)
    assert text
    return json.loads(text[1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("report")


@pytest.fixture
def sweep(run_dse, folder):
    path = folder / "sweep.parquet"
    if not path.exists():
        gpus = ("-g", "a100-pcie-40gb", "-g", "rtx-3090")
        assert (
            run_dse("sweep", "transpose", *gpus, "-m", "phase", "-m", "roofline", "-o", str(path)).code == 0
        )
    return path


def test_a_sweep(run_dse, sweep, folder):
    out = folder / "report.html"
    ran = run_dse("report", str(sweep), "-o", str(out))
    assert (ran.code, ran.err) == (0, "")
    assert re.fullmatch(rf"a page of 72 configurations, 0\.\d MB; wrote {re.escape(str(out))}; .*\n", ran.out)
    first, second = data_of(out)["spaces"]
    assert (first["kernel"], first["gpu"], second["gpu"]) == (
        "transpose",
        "NVIDIA A100-PCIE-40GB",
        "NVIDIA GeForce RTX 3090",
    )
    assert first["models"] == ["phase", "roofline"]
    assert first["parameters"] == ["tile", "rows", "shared", "padding"]
    assert set(first["roofline"]["roofs"]) >= {"instructions_per_s", "dram_bytes_per_s"}
    assert set(first["importance"]["phase"]) == set(first["parameters"])
    assert {"thread_instructions", "dram_bytes"} <= {column["name"] for column in first["columns"]}


def test_a_ranking_takes_its_names_from_options(run_dse, folder, toy_kernel):
    ranking, out = folder / "ranking.csv", folder / "ranking.html"
    card = ("-g", "a100-pcie-40gb")
    assert (
        run_dse("rank", str(toy_kernel), *card, "-m", "roofline", "--top", "0", "-o", str(ranking)).code == 0
    )
    assert run_dse("report", str(ranking), "-o", str(out), "--kernel", str(toy_kernel), *card).code == 0
    [space] = data_of(out)["spaces"]
    assert (space["gpu"], space["count"]) == ("NVIDIA A100-PCIE-40GB", 23)
    assert space["parameters"] == ["block", "items"]
    assert "roofs" in space["roofline"]


def test_counts_that_are_another_launch_s_are_not_put_on_a_roofline(run_dse, folder, toy_kernel):
    ranking, out = folder / "other.csv", folder / "other.html"
    ranking.write_text("block,items,threads,blocks,time_s\n32,1,32,32768,1e-3\n64,1,64,999,2e-3\n")
    told = ("--kernel", str(toy_kernel), "-g", "a100-pcie-40gb")
    assert run_dse("report", str(ranking), "-o", str(out), *told).code == 0
    [space] = data_of(out)["spaces"]
    assert (
        space["roofline"]["reason"] == "the described kernel has other blocks: other problem sizes, perhaps"
    )


def test_a_size_that_is_no_number_is_told_in_place_of_a_roofline(run_dse, folder, toy_kernel):
    ranking, out = folder / "words.csv", folder / "words.html"
    ranking.write_text("n,block,items,time_s\nmany,32,1,1e-3\nmany,64,1,2e-3\n")
    told = ("--kernel", str(toy_kernel), "-g", "a100-pcie-40gb")
    assert run_dse("report", str(ranking), "-o", str(out), *told).code == 0
    [space] = data_of(out)["spaces"]
    assert space["roofline"]["reason"] == "the size n is no number"


def test_sizes_of_the_problem_are_spaces_of_their_own(run_dse, folder, toy_kernel):
    rows, out = folder / "sizes.csv", folder / "sizes.html"
    lines = [f"{n},{b},{b},{n // b},{n * 1e-9}" for n in (1024, 4096) for b in (32, 64, 128)]
    rows.write_text("n,block,threads,blocks,time_s\n" + "\n".join(lines) + "\n")
    told = ("--kernel", str(toy_kernel), "-g", "a100-pcie-40gb")
    assert run_dse("report", str(rows), "-o", str(out), *told).code == 0
    spaces = data_of(out)["spaces"]
    assert [space["kernel"].removeprefix(str(toy_kernel)) for space in spaces] == [", n 1,024", ", n 4,096"]
    assert [space["parameters"] for space in spaces] == [["block"]] * 2
    assert "items" in spaces[0]["roofline"]["reason"]  # which the file does not state

"""`dse report`: from a sweep and other results to one page."""

import json
import re

import pytest

CARD = ("-g", "a100-pcie-40gb")


@pytest.fixture
def reported(run_dse, tmp_path):
    """`reported("sweep.parquet")`: the spaces of the page that is made of these results."""

    def reported(*words):
        out = tmp_path / "report.html"
        ran = run_dse("report", *words, "-o", out)
        assert (ran.code, ran.err) == (0, "")
        text = re.search(r'<script type="application/json" id="data">(.*?)</script>', out.read_text(), re.S)
        assert text
        return json.loads(text[1])["spaces"]

    return reported


def test_a_sweep(run_dse, reported, tmp_path):
    path = tmp_path / "sweep.parquet"
    models = ("-m", "volkov", "-m", "roofline")
    assert run_dse("sweep", "reduction", *CARD, "-g", "rtx-3090", *models, "-o", path).code == 0
    first, second = reported(path)
    names = ("reduction", "NVIDIA A100-PCIE-40GB", "NVIDIA GeForce RTX 3090")
    assert (first["kernel"], first["gpu"], second["gpu"]) == names
    assert first["count"] + second["count"] == 120
    assert first["models"] == ["volkov", "roofline"]
    assert first["parameters"] == ["block", "items", "shuffle"]
    assert set(first["roofline"]["roofs"]) >= {"instructions_per_s", "dram_bytes_per_s"}
    assert set(first["importance"]["volkov"]) == set(first["parameters"])
    assert {"thread_instructions", "dram_bytes"} <= {column["name"] for column in first["columns"]}


def test_a_ranking_takes_its_names_from_options(run_dse, reported, tmp_path, toy_kernel):
    path = tmp_path / "ranking.csv"
    assert run_dse("rank", toy_kernel, *CARD, "-m", "roofline", "--top", "0", "-o", path).code == 0
    [space] = reported(path, "--kernel", toy_kernel, *CARD)
    assert (space["gpu"], space["count"]) == ("NVIDIA A100-PCIE-40GB", 23)
    assert (space["parameters"], "roofs" in space["roofline"]) == (["block", "items"], True)


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (
            "block,items,threads,blocks,time_s\n32,1,32,32768,1e-3\n64,1,64,999,2e-3\n",
            "the described kernel has other blocks: other problem sizes, perhaps",
        ),
        ("n,block,items,time_s\nmany,32,1,1e-3\nmany,64,1,2e-3\n", "the size n is no number"),
    ],
)
def test_why_there_is_no_roofline(reported, tmp_path, toy_kernel, table, reason):
    (tmp_path / "other.csv").write_text(table)
    [space] = reported(tmp_path / "other.csv", "--kernel", toy_kernel, *CARD)
    assert space["roofline"]["reason"] == reason


def test_sizes_of_the_problem_are_spaces_of_their_own(reported, tmp_path, toy_kernel):
    rows = [f"{n},{b},{b},{n // b},{n * 1e-9}" for n in (1024, 4096) for b in (32, 64, 128)]
    (tmp_path / "sizes.csv").write_text("\n".join(["n,block,threads,blocks,time_s", *rows]))
    spaces = reported(tmp_path / "sizes.csv", "--kernel", toy_kernel, *CARD)
    assert [space["kernel"].removeprefix(str(toy_kernel)) for space in spaces] == [", n 1,024", ", n 4,096"]
    assert [space["parameters"] for space in spaces] == [["block"]] * 2
    assert "items" in spaces[0]["roofline"]["reason"]  # which the file does not state

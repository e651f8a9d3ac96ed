"""`dse accuracy DIR`: models scored on the measured spaces of a folder."""

import json
from pathlib import Path

import pytest

from dse.accuracy.models import chosen_on, rules
from dse.kernels.counts import Counted


def test_scores_every_space(answer, folder):
    [space] = answer("accuracy", folder, "--model", "phase", "--model", "roofline")["tables"]
    assert (space["space"], space["kernel"], space["gpu"]) == ("toys", "toy", "NVIDIA A100-PCIE-40GB")
    phase, roofline, chance = space["rows"]
    assert [row["model"] for row in space["rows"]] == ["phase", "roofline", "random choice"]
    assert (phase["failed"], phase["spearman"]) == (1, pytest.approx(1))
    assert phase["mape_percent"] == pytest.approx(0, abs=1e-4)
    assert roofline["mape_percent"] > 0
    assert 0 < chance["top_1"] < phase["top_1"] == pytest.approx(1)


def test_fills_a_page(run_dse, folder, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- measured spaces: begin -->\nold\n<!-- measured spaces: end -->\n")
    ran = run_dse("accuracy", folder, "--model", "phase", "--page", page)
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    text = page.read_text()
    assert "old" not in text
    for part in (
        "### toys on NVIDIA A100-PCIE-40GB",
        "1 of them failed",
        "No rule was chosen on this table.",
        "| Spearman | toys, NVIDIA A100-PCIE-40GB |\n| --- | ---: |\n| phase | 1 |\n\n### ",
    ):
        assert part in text
    assert "| random choice |  |  |  | 0." in text


def test_a_space_without_a_kernel_is_left_out_and_said(run_dse, folder):
    (folder / "others").mkdir()
    (folder / "others" / "A100.csv").write_text("x,time_ms\n1,1\n")
    ran = run_dse("accuracy", folder, "--model", "phase", "--json")
    assert len(json.loads(ran.out)["tables"]) == 1
    assert ran.err.endswith("others/A100.csv: no kernel lists the space others: left out\n")
    (folder / "toys" / "A100.csv").unlink()
    ran = run_dse("accuracy", folder, "--model", "phase")
    assert (ran.code, "found no usable table, expected FOLDER/SPACE/GPU.csv.gz" in ran.err) == (2, True)


def test_counts_from_source(run_dse, answer, folder, monkeypatch):
    """Fed by what a source does: here that of a stand-in, so that nothing is compiled."""
    from dse.source.kernel import SourceKernel

    def count(self: SourceKernel, *arguments: object) -> Counted:
        assert self.space.values["items"] == (2,)
        return self.description.count(*arguments)  # type: ignore[arg-type]

    kernel = folder.parent / "catalogue" / "kernels" / "toy" / "kernel.toml"
    kernel.with_name("toy.cu").touch()
    kernel.write_text(kernel.read_text() + '[source]\nfile = "toy.cu"\nblock = ["block"]\ngrid = ["n"]\n')
    monkeypatch.setattr(SourceKernel, "count", count)
    command = ("accuracy", "--source", "--sample", "4", "--set", "items=2", folder, "--model", "phase")
    [space] = answer(*command)["tables"]
    assert (space["vendor"], "NVRTC" in space["compiler"]) == ("NVIDIA", True)
    assert (space["rows"][0]["configurations"], space["rows"][0]["spearman"]) == (4, pytest.approx(1))
    assert f"; {space['compiler']}." in run_dse(*command, "--page", "-").out
    assert "found no usable table" in run_dse(*command, "--only", "H100").err
    wrong = run_dse("accuracy", folder, "--source", "--set", "itms=2")
    assert wrong.err == "dse: --set: found 'itms', expected a parameter or size of toy\n"


def test_a_table_that_rules_were_chosen_on_says_which():
    assert all(rule.tables and all("/" in table for table in rule.tables) for rule in rules())
    by_description = Path("any/gemm/RTX_3090.csv.gz")
    assert "loads and sums in turn" in chosen_on(by_description, "description")
    assert "loads and sums in turn" not in chosen_on(by_description, "source")
    assert "unaligned load" in chosen_on(Path("convolution_ktt/RTX_2080_Ti.csv.gz"), "source")

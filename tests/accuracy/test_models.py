"""`dse accuracy DIR`: models scored on the measured spaces of a folder."""

import json

import pytest

from dse.accuracy.models import described
from dse.kernels.counts import Counted


def test_scores_every_space(run_dse, folder):
    ran = run_dse("accuracy", str(folder), "--model", "phase", "--model", "roofline", "--json")
    assert (ran.code, ran.err) == (0, "")
    [space] = json.loads(ran.out)["tables"]
    assert (space["space"], space["kernel"], space["gpu"]) == ("toys", "toy", "NVIDIA A100-PCIE-40GB")
    phase, roofline, chance = space["rows"]
    assert [row["model"] for row in space["rows"]] == ["phase", "roofline", "random choice"]
    assert phase["failed"] == 1
    assert phase["spearman"] == pytest.approx(1)
    assert phase["mape_percent"] == pytest.approx(0, abs=1e-4)
    assert roofline["mape_percent"] > 0
    assert 0 < chance["top_1"] < phase["top_1"] == pytest.approx(1)
    table = run_dse("accuracy", "spaces", str(folder), "--model", "phase").out
    assert "toys on NVIDIA A100-PCIE-40GB" in table
    assert "random choice" in table


@pytest.mark.slow
def test_fills_a_page(run_dse, folder, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- measured spaces: begin -->\nold\n<!-- measured spaces: end -->\n")
    ran = run_dse("accuracy", str(folder), "--model", "phase", "--page", str(page))
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    printed = run_dse("accuracy", str(folder), "--model", "phase", "--page", "-").out
    assert printed.strip() in page.read_text()
    assert "old" not in page.read_text()
    assert "### toys on NVIDIA A100-PCIE-40GB" in printed
    assert "1 of them failed" in printed
    assert "| random choice |  |  |  | 0." in printed


def test_a_space_without_a_kernel_is_left_out_and_said(run_dse, folder):
    (folder / "others").mkdir()
    (folder / "others" / "A100.csv").write_text("x,time_ms\n1,1\n")
    ran = run_dse("accuracy", str(folder), "--model", "phase", "--json")
    assert len(json.loads(ran.out)["tables"]) == 1
    assert ran.err.endswith("others/A100.csv: no kernel lists the space others: left out\n")
    (folder / "toys" / "A100.csv").unlink()
    notes = []
    with pytest.raises(Exception, match="found no measured table"):
        list(described(folder, ["phase"], notes.append))
    assert len(notes) == 1


@pytest.mark.slow
def test_counts_from_source(run_dse, folder, monkeypatch):
    """Fed by what a source does: here that of a stand-in, so that nothing is compiled."""
    from dse.source.kernel import SourceKernel

    def count(self: SourceKernel, *arguments: object) -> Counted:
        assert self.space.values["items"] == (2,)
        return self.description.count(*arguments)  # type: ignore[arg-type]

    kernel = folder.parent / "kernels" / "toy" / "kernel.toml"
    kernel.with_name("toy.cu").write_text("")
    kernel.write_text(kernel.read_text() + '[source]\nfile = "toy.cu"\nblock = ["block"]\ngrid = ["n"]\n')
    monkeypatch.setattr(SourceKernel, "count", count)
    arguments = ("accuracy", "--source", "--sample", "4", "--set", "items=2", str(folder), "--model", "phase")
    ran = run_dse(*arguments, "--json")
    assert ran.err == ""
    [space] = json.loads(ran.out)["tables"]
    assert "NVRTC" in space["compiler"]
    assert space["rows"][0]["configurations"] == 4
    assert space["rows"][0]["spearman"] == pytest.approx(1)
    assert f"; {space['compiler']}." in run_dse(*arguments, "--page", "-").out
    page = folder.parent / "page.md"
    page.write_text("<!-- from source: begin -->\n<!-- from source: end -->\nothers\n")
    assert run_dse(*arguments, "--page", str(page)).code == 0
    assert space["compiler"] in page.read_text()
    assert space["vendor"] == "NVIDIA"
    assert "found no measured table" in run_dse(*arguments, "--only", "H100").err
    ran = run_dse("accuracy", str(folder), "--source", "--set", "itms=2")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "dse: --set: found 'itms', expected a parameter or size of toy\n"


@pytest.mark.parametrize(
    ("more", "found"),
    [
        (["--model", "phas"], "found 'phas'"),
        (["--sample", "3"], "--sample: found without --source, expected both"),
        (["--set", "block=64"], "--set: found without --source, expected both"),
        (["--only", "A100"], "--only: found without --source, expected both"),
        (["--source", "--set", "block"], "--set: found 'block', expected NAME=VALUE"),
        (["--json", "--page", "-"], "--page: found together with --json"),
        (["--model", "phase", "--page", "nowhere.md"], "nowhere.md: cannot read"),
    ],
)
def test_mistakes(run_dse, folder, more, found):
    ran = run_dse("accuracy", str(folder), *more)
    assert (ran.code, ran.out) == (2, "")
    [line] = ran.err.splitlines()
    assert found in line


def test_mistakes_in_the_folder(run_dse, folder, tmp_path):
    ran = run_dse("accuracy", str(tmp_path / "nowhere"))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.endswith("nowhere: found no measured table, expected FOLDER/SPACE/GPU.csv.gz\n")
    (folder / "toys" / "A1000.csv").write_text("BLOCK,items,time_ms\n64,1,1\n")
    ran = run_dse("accuracy", str(folder), "--model", "phase")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("dse: gpu: found 'A1000'")

"""`dse gpus`, `dse kernels`, `dse models`: what there is, and what is known of each."""

import csv
import io
import os
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from write_page import models

from dse import kernels
from dse.hardware import gpus
from dse.models import MODELS, module
from dse.models.about import ASPECTS

GPUS = [name.replace("_", "-") for name in gpus.names()]


@pytest.mark.parametrize(
    ("command", "names"), [("gpus", GPUS), ("kernels", kernels.names()), ("models", list(MODELS))]
)
def test_lists_all(run_dse, answer, tmp_path, command, names):
    assert [row["name"] for row in answer(command)] == names
    assert [row["name"] for row in csv.DictReader(io.StringIO(run_dse(command, "--csv").out))] == names
    table = run_dse(command).out
    assert all(name in table for name in names)
    assert run_dse(command, "-o", tmp_path / "list.parquet").code == 0
    assert pq.read_table(tmp_path / "list.parquet")["name"].to_pylist() == names


@pytest.mark.parametrize("words", ["models show phase", "gpus show a100-pcie-40gb", "kernels show gemm"])
@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_one_of_them_is_written(run_dse, tmp_path, words, suffix):
    out = tmp_path / f"shown.{suffix}"
    ran = run_dse(*words.split(), "-o", out)
    assert (ran.code, ran.err) == (0, "")
    assert out.stat().st_size > 500


def test_a_gpu_and_a_kernel_show_what_their_files_say(answer, toy_kernel):
    shown = answer("gpus", "show", "a100-pcie-40gb")
    fields = gpus.load("a100-pcie-40gb").fields
    assert {row["field"]: row["value"] for row in shown} == {record.field: record.value for record in fields}
    order = [row["provenance"] for row in shown]
    assert order == sorted(order, key=["stated", "measured", "derived", "fitted"].index)
    assert all(row["rule"] for row in shown if row["provenance"] == "derived")
    assert all(row["source"] for row in shown)
    values = {(row["part"], row["name"]): row["value"] for row in answer("kernels", "show", toy_kernel)}
    assert values["problem", "n"] == "1048576"
    assert values["parameter", "items"] == "1, 2, 3, 4"
    assert values["launch", "blocks"] == "ceil(n / (block * items))"
    assert values["access", "y"] == "global store"
    assert values["access", "y.count"] == "items"


@pytest.mark.slow
def test_a_description_is_checked(run_dse, own_toy_kernel):
    checked = run_dse("kernels", "check", own_toy_kernel, "--gpu", "a100-pcie-40gb", "-g", "mi250x")
    assert (checked.code, checked.err) == (0, "")
    assert "all counts are possible on" in checked.out
    by_lanes = run_dse("kernels", "check", "transpose", "-g", "a100-pcie-40gb", "--set", "width=8200")
    assert [line.split()[0] for line in by_lanes.out.splitlines() if " width " in line] == ["input"]
    own_toy_kernel.write_text(own_toy_kernel.read_text().replace('fp32 = "items"', 'fp32 = "items - 2"'))
    wrong = run_dse("kernels", "check", own_toy_kernel, "--gpu", "a100-pcie-40gb")
    assert (wrong.code, "warp.fp32: found -1 at block=" in wrong.err) == (2, True)


def test_a_model_shows_what_it_declares(run_dse, answer):
    text = " ".join(run_dse("models", "show", "mwp-cwp-pipeline").out.split())
    about = module("mwp-cwp-pipeline").ABOUT
    for line in (*about.inputs, *about.ignores, *about.differs.values(), about.use_when, about.source):
        assert line in text
    assert all(f"{number}: {formula}" in text for number, formula in about.equations.items())
    [row] = answer("models", "show", "mwp-cwp-pipeline")
    assert (row["leaves_out"], row["aspects"]) == (list(about.ignores), ["Λ_mem"])
    rows = answer("models", "aspects")
    assert [row["model"] for row in rows] == list(MODELS)
    for row in rows:
        assert {aspect for aspect in ASPECTS if row[aspect]} == module(row["model"]).ABOUT.aspects


def test_the_page_is_what_the_models_say():
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text()
    _, section, _ = re.split("<!-- models: (?:begin|end) -->", page)
    assert section.strip() == models()


def test_quiet_holds_for_one_command(run_dse, monkeypatch):
    monkeypatch.delenv("DSE_QUIET", raising=False)
    assert run_dse("--quiet", "models").code == 0
    assert "DSE_QUIET" not in os.environ

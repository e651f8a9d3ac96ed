"""`dse gpus`, `dse kernels`, `dse models`: what there is, and what is known of each."""

import csv
import io
import json
import os

import pyarrow.parquet as pq
import pytest

from dse import kernels
from dse.hardware import gpus
from dse.models import MODELS

GPUS = [name.replace("_", "-") for name in gpus.names()]


def rows(ran):
    assert (ran.code, ran.err) == (0, "")
    return json.loads(ran.out)


@pytest.mark.parametrize(
    ("command", "names"), [("gpus", GPUS), ("kernels", kernels.names()), ("models", list(MODELS))]
)
def test_lists_all(run_dse, tmp_path, command, names):
    assert [row["name"] for row in rows(run_dse(command, "--json"))] == names
    assert [row["name"] for row in csv.DictReader(io.StringIO(run_dse(command, "--csv").out))] == names
    table = run_dse(command).out
    assert all(name in table for name in names)
    out = tmp_path / "list.parquet"
    ran = run_dse(command, "-o", str(out))
    assert ran.code == 0
    assert f"wrote {out}" in ran.out or command == "gpus"
    assert pq.read_table(out)["name"].to_pylist() == names


@pytest.mark.parametrize("shown", ["models show phase", "gpus show a100-pcie-40gb", "kernels show gemm"])
@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_one_of_them_is_written(run_dse, tmp_path, shown, suffix):
    out = tmp_path / f"shown.{suffix}"
    ran = run_dse(*shown.split(), "-o", str(out))
    assert (ran.code, ran.err) == (0, "")
    assert out.stat().st_size > 500


def test_a_gpu_shows_where_its_numbers_are_from(run_dse):
    shown = rows(run_dse("gpus", "show", "a100-pcie-40gb", "--json"))
    file = gpus.load("a100-pcie-40gb")
    assert {row["field"]: row["value"] for row in shown} == {each.field: each.value for each in file.fields}
    order = [row["provenance"] for row in shown]
    assert order == sorted(order, key=["stated", "measured", "derived", "fitted"].index)
    assert all(row["rule"] for row in shown if row["provenance"] == "derived")
    assert all(row["source"] for row in shown)


def test_a_kernel_shows_its_description(run_dse, toy_kernel):
    shown = rows(run_dse("kernels", "show", str(toy_kernel), "--json"))
    told = {(row["part"], row["name"]): row["value"] for row in shown}
    assert told["problem", "n"] == "1048576"
    assert told["parameter", "items"] == "1, 2, 3, 4"
    assert told["launch", "blocks"] == "ceil(n / (block * items))"
    assert told["warp", "int32"] == "8 + items"
    assert told["access", "y"] == "global store"
    assert told["access", "y.count"] == "items"
    assert next(row["value"] for row in shown if row["part"] == "constraint") == "block * items <= 2048"


def test_a_description_is_checked(run_dse, own_toy_kernel):
    checked = run_dse("kernels", "check", str(own_toy_kernel), "--gpu", "a100-pcie-40gb", "-g", "mi250x")
    assert (checked.code, checked.err) == (0, "")
    assert "all counts are possible on" in checked.out
    by_lanes = run_dse("kernels", "check", "transpose", "-g", "a100-pcie-40gb", "--set", "width=8200")
    assert [line.split()[0] for line in by_lanes.out.splitlines() if " width " in line] == ["input"]
    own_toy_kernel.write_text(own_toy_kernel.read_text().replace('fp32 = "items"', 'fp32 = "items - 2"'))
    wrong = run_dse("kernels", "check", str(own_toy_kernel), "--gpu", "a100-pcie-40gb")
    assert wrong.code == 2
    assert "warp.fp32: found -1 at block=" in wrong.err


def test_quiet_holds_for_one_command(run_dse, monkeypatch):
    monkeypatch.delenv("DSE_QUIET", raising=False)
    seen = []
    monkeypatch.setattr(
        "dse.hardware.gpus.table.known", lambda: seen.append(os.environ.get("DSE_QUIET")) or {}
    )
    assert run_dse("--quiet", "gpus").code == 0
    assert run_dse("gpus").code == 0
    assert seen == ["1", None]

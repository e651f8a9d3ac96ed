"""`dse accuracy tuning`: how close to the optimum tuning comes on measured spaces."""

import json
from dataclasses import replace

import numpy as np
import pytest

from dse import kernels
from dse.accuracy.tuning import TuningSettings, in_order
from dse.errors import DseError
from dse.evaluate.rank import configurations
from dse.explore.tune.candidates import bare

FEW = ("--seeds", "1", "--budget", "10")
T1 = {"ConfigurationSpace": {"TuningParameters": [{"Name": "BLOCK"}, {"Name": "items"}]}}


@pytest.mark.slow
def test_a_described_kernel(answer, run_dse, folder):
    [row] = answer("accuracy", "tuning", folder, *FEW)["rows"]
    assert (row["space"], row["kernel"], row["gpu"], row["from"]) == ("toys", "toy", "A100", "described")
    assert row["spearman_untuned"] == pytest.approx(1)
    assert row["untuned_top20"] == row["tune_10"] == pytest.approx(1)
    assert 0 < row["random_20"] < 1
    assert "tune_20" not in row
    [part] = answer("accuracy", "tuning", folder, *FEW, "--set", "items=1")["rows"]
    assert 0 < part["configurations"] < row["configurations"]
    assert "| toys | A100 | described |" in run_dse("accuracy", "tuning", folder, *FEW, "--page", "-").out


@pytest.mark.slow
def test_a_space_of_which_only_the_parameters_are_known(run_dse, folder):
    (folder / "toys").rename(folder / "unknown")
    ran = run_dse("accuracy", "tuning", folder, *FEW, "--json")
    assert "no T1.json in its folder: the columns before the times are used as parameters" in ran.err
    [row] = json.loads(ran.out)["rows"]
    assert (row["kernel"], row["from"]) == ("", "none")
    (folder / "unknown" / "T1.json").write_text(json.dumps(T1))
    ran = run_dse("accuracy", "tuning", folder, *FEW, "--only", "unknown/A1", "--json")
    [row] = json.loads(ran.out)["rows"]
    assert (row["kernel"], row["from"], row["untuned_top20"]) == ("", "none", None)
    assert "not read from source: " in ran.err
    (folder / "unknown" / "A100.csv").rename(folder / "unknown" / "A100.tsv")
    ran = run_dse("accuracy", "tuning", folder, *FEW)
    assert ran.code == 2
    assert "A100.tsv: left out: expected a table that ends in .csv.gz, .csv, .parquet" in ran.err
    assert "found no usable table, expected FOLDER/SPACE/GPU.csv.gz" in ran.err


@pytest.mark.slow
def test_a_described_kernel_read_from_its_source(run_dse, tmp_path):
    description = kernels.load("transpose")
    parameters = configurations(description)
    columns = [*parameters.values(), 1 + parameters["tile"] % 3]
    rows = [",".join(map(str, values)) for values in zip(*columns, strict=True)]
    (tmp_path / "transpose").mkdir()
    table = tmp_path / "transpose" / "W6600.csv"
    table.write_text("\n".join([",".join([*parameters, "time_ms"]), *rows]))
    arguments = ("--seeds", "1", "--budget", "5", "--source", "--compile", "12", "--json")
    ran = run_dse("accuracy", "tuning", str(tmp_path), *arguments)
    [row] = json.loads(ran.out)["rows"]
    assert (row["kernel"], row["gpu"], row["from"]) == ("transpose", "W6600", "source")
    assert row["configurations"] == len(rows)


@pytest.mark.slow
def test_halves_of_a_reversed_order(answer, folder):
    whole, halves = (
        answer("accuracy", "tuning", folder, *FEW, "--order", "reversed", *more)["rows"][0]
        for more in ((), ("--parts", "2"))
    )
    assert whole["from"] == halves["from"] == "described, reversed"
    assert whole["spearman_untuned"] == halves["spearman_untuned"] == pytest.approx(-1)
    assert whole["random_20"] != halves["random_20"]
    assert whole["configurations"] == halves["configurations"]


def test_the_order_is_turned_about_its_middle():
    times, possible = np.log([1.0, 2.0, 4.0, 64.0]), np.array([True, True, True, False])
    some = replace(bare({"a": np.arange(4)}), log_s=times, slopes=times[:, None], possible=possible)
    turned = in_order(replace(some, modelled=True), "reversed")
    np.testing.assert_allclose(np.exp(turned.log_s), [4.0, 2.0, 1.0, 4.0])  # the last cannot run
    np.testing.assert_allclose(turned.slopes, -some.slopes)
    assert not in_order(replace(some, modelled=True), "none").modelled
    with pytest.raises(DseError, match="order: found 'up'"):
        TuningSettings(order="up")

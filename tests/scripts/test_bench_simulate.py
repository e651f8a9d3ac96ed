"""The benchmark of the simulator writes batches that others can read, and runs another simulator on them."""

import json
import sys
from pathlib import Path

import pytest
from check_vectors import read_case

from dse.simulator import simulate

pytestmark = pytest.mark.slow

SCRIPT = "bench/simulate"


def test_batches_are_read_again(run_script, tmp_path: Path):
    names = ("all_on", "dataflow")
    run_script("--quick", "--export", str(tmp_path), "--only", ",".join(names))
    assert {path.stem for path in tmp_path.iterdir()} == set(names)
    for name in names:
        written = json.loads((tmp_path / f"{name}.json").read_text())["cases"][:20]
        cases = [read_case(raw) for raw in written]
        assert simulate(cases).makespan.tolist() == [raw["expect"]["makespan"] for raw in written]
        assert [case.entries for case in cases] == [raw["expect"]["entries"] for raw in written]


def test_another_simulator_runs_beside(run_script, tmp_path: Path):
    other = tmp_path / "other.py"
    other.write_text("import json, sys; print('best', len(json.load(open(sys.argv[1]))['cases']) / 8)")
    command = f"{sys.executable} {other} {{file}}"
    report = json.loads(
        run_script("--quick", "--json", "--only", "dataflow", "--threads", "2", "--beside", command)
    )
    rates = report["batches"]["dataflow"]
    assert rates["beside_entries_per_s"] == 128 / 8 * 1e6
    assert rates["times_beside"] == pytest.approx(rates["entries_per_s"] / 16e6)
    assert rates["threads_entries_per_s"] > 0
    assert report["dataflow_entries_per_s"] == rates["entries_per_s"]

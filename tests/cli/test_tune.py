"""`dse tune`: the toy kernel's fastest configuration, by replay and by a command."""

import json
import sys

import pytest

from dse import kernels


def milliseconds(block, items):
    """The fastest is 128, 3."""
    return 0.1 + 0.02 * abs(block.bit_length() - 8) + 0.03 * abs(items - 3)


@pytest.fixture(scope="module")
def measured(tmp_path_factory, toy_kernel):
    columns = kernels.load(toy_kernel).space.configurations({"n": 1})
    lines = [
        f"{block},{items},{'' if block == 1024 else milliseconds(block, items)}"
        for block, items in zip(*(column.tolist() for column in columns.values()), strict=True)
    ]
    path = tmp_path_factory.mktemp("measured") / "a100.csv"
    path.write_text("\n".join(["block,items,time_ms", *lines]))
    return path


@pytest.fixture
def tuned(answer, toy_kernel):
    return lambda *words: answer("tune", toy_kernel, "-g", "a100-pcie-40gb", "-m", "roofline", *words)


def test_replay(tuned, measured, tmp_path):
    journal = tmp_path / "run.jsonl"
    rows = tuned("--replay", measured, "--budget", "14", "--journal", journal)
    assert [row["number"] for row in rows] == list(range(1, 15))
    assert len({(row["block"], row["items"]) for row in rows}) == 14
    for row in rows:
        expected = None if row["block"] == 1024 else 1e-3 * milliseconds(row["block"], row["items"])
        assert row["measured_s"] == pytest.approx(expected)
    assert rows[-1]["fastest_s"] == pytest.approx(1e-3 * milliseconds(128, 3))
    assert len(journal.read_text().splitlines()) == 14
    assert tuned("--replay", measured, "--budget", "14", "--journal", journal) == rows  # nothing left to do
    again = tuned("--replay", journal, "--budget", "14")  # the journal is a file of measurements too
    assert sorted(
        (row["block"], row["items"], row["measured_s"]) for row in again if row["status"] == "ok"
    ) == (sorted((row["block"], row["items"], row["measured_s"]) for row in rows if row["status"] == "ok"))
    assert len(again) == 14


def test_a_command_measures_or_nothing_ran_which_is_an_error(run_dse, toy_kernel, tmp_path):
    out = tmp_path / "run.json"
    code = "import sys; print(int(sys.argv[1]) / 64, sys.argv[2])"
    command = ("--command", f"{sys.executable} -S -c '{code}' {{block}} 0.{{items}}", "--unit", "us")
    few = ("--budget", "3", "--batch", "2", "-o", out)
    ran = run_dse("tune", toy_kernel, "-g", "a100-pcie-40gb", "-m", "roofline", *command, *few)
    assert ran.code == 0, ran.err
    rows = json.loads(out.read_text())
    assert [row["measured_s"] for row in rows] == pytest.approx([1e-7 * row["items"] for row in rows])
    few = ("--budget", "2", "--command", f"{sys.executable} -S -c 'raise SystemExit(3)' {{block}} {{items}}")
    ran = run_dse("tune", toy_kernel, "-g", "a100-pcie-40gb", "-m", "roofline", *few)
    assert ran.code == 1
    assert "no configuration ran in 2 of 2 measurements, 2 failed" in ran.out + ran.err


def test_recorded_times_on_another_gpu_lead_to_the_fastest_sooner(tuned, measured):
    """The same table as of another GPU: trusted once measurements agree with it better than without."""
    guided, alone = (tuned("--replay", measured, "--budget", "6", *x) for x in (("--prior", measured), ()))
    assert guided[-1]["fastest_s"] < alone[-1]["fastest_s"]

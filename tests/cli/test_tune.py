"""`dse tune`: the toy kernel's fastest configuration, by replay and by a command."""

import json
import sys

import pytest

BLOCKS, ITEMS = (32, 48, 64, 128, 256, 512, 1024), (1, 2, 3, 4)
ROWS = [
    (block, items)
    for block in BLOCKS
    for items in ITEMS
    if block * items <= 2048 and (block % 32 == 0 or items == 1)
]
FASTEST = (128, 3)


def milliseconds(block, items):
    return 0.1 + 0.02 * abs(block.bit_length() - 8) + 0.03 * abs(items - 3)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    path = tmp_path_factory.mktemp("measured") / "a100.csv"
    lines = [
        f"{block},{items},{'' if block == 1024 else milliseconds(block, items)}" for block, items in ROWS
    ]
    path.write_text("block,items,time_ms\n" + "\n".join(lines) + "\n")
    return str(path)


@pytest.fixture
def tune(run_dse, toy_kernel):
    def run(*arguments):
        return run_dse("tune", str(toy_kernel), "-g", "a100-pcie-40gb", "-m", "roofline", *arguments)

    return run


def test_replay(tune, measured, tmp_path):
    journal = tmp_path / "run.jsonl"
    ran = tune("--replay", measured, "--budget", "14", "--journal", str(journal), "--json")
    assert ran.code == 0, ran.err
    rows = json.loads(ran.out)
    assert [row["number"] for row in rows] == list(range(1, 15))
    assert len({(row["block"], row["items"]) for row in rows}) == 14
    for row in rows:
        expected = None if row["block"] == 1024 else 1e-3 * milliseconds(row["block"], row["items"])
        assert row["measured_s"] == pytest.approx(expected)
    assert rows[-1]["fastest_s"] == pytest.approx(1e-3 * milliseconds(*FASTEST))
    assert len(journal.read_text().splitlines()) == 14
    shown = tune("--replay", measured, "--budget", "14", "--journal", str(journal))
    assert f"14 of {len(ROWS)} measured; the budget is spent" in " ".join(shown.out.split())


def test_command(tune, tmp_path):
    out = tmp_path / "run.json"
    code = "import sys; print(int(sys.argv[1]) / 64, sys.argv[2])"
    command = f"{sys.executable} -S -c '{code}' {{block}} 0.{{items}}"
    ran = tune("--command", command, "--unit", "us", "--budget", "3", "--batch", "2", "-o", str(out))
    assert ran.code == 0, ran.err
    rows = json.loads(out.read_text())
    assert [row["measured_s"] for row in rows] == pytest.approx([1e-7 * row["items"] for row in rows])


def test_recorded_times_on_another_gpu_lead_to_the_fastest_sooner(tune, measured):
    """The same table as of another GPU: trusted as soon as the first looks agree with it."""
    ran = tune("--replay", measured, "--budget", "3", "--prior", measured, "--json")
    assert ran.code == 0, ran.err
    alone = json.loads(tune("--replay", measured, "--budget", "3", "--json").out)
    assert json.loads(ran.out)[-1]["fastest_s"] < alone[-1]["fastest_s"]
    assert tune("--replay", measured, "--prior", "nothing.csv").err.startswith("dse: nothing.csv: ")

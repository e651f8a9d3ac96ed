"""The script that compares every closed form with a file of vectors, as a user runs it."""

import json
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "validate" / "check_models.py"
EXAMPLE = {"omega": 8, "a_comp": 4, "a_mem": 2, "l_comp": 1, "L_comp": 4, "l_mem": 2, "L_mem": 6}


@pytest.fixture
def write(tmp_path):
    def to_file(content):
        path = tmp_path / "vectors.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return to_file


@pytest.fixture
def check(monkeypatch, capsys):
    """The script in this process: exit code, stdout, stderr."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(SCRIPT), run_name="__main__")
        return end.value.code, *capsys.readouterr()

    return run


def vectors():
    """Two models that `dse` has, and one that it has not."""
    shipped = json.loads((ROOT / "tests" / "models" / "vectors.json").read_text())["models"]
    models = {name: shipped[name] for name in ("roofline", "mwp_cwp_pipeline")}
    return {"format": "model-vectors 1", "models": models | {"no_such_model": [{"in": {}, "out": {}}]}}


def test_passes_and_says_what_is_absent(write, check):
    code, out, err = check(write(vectors()))
    assert (code, err) == (0, "")
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert list(lines) == list(vectors()["models"])
    assert lines.pop("no_such_model").endswith("absent")
    assert all("24 cases  worst relative error" in line and "FAILED" not in line for line in lines.values())


def test_json(write, check):
    code, out, _ = check(write(vectors()), "--json")
    report = json.loads(out)
    assert (code, report["passed"], report["allowed"]) == (0, True, 1e-9)
    rows = {row["model"]: row for row in report["models"]}
    assert list(rows) == list(vectors()["models"])
    assert rows.pop("no_such_model")["worst"] is None
    assert all(0 <= row["worst"] < 1e-12 for row in rows.values())


def test_a_wrong_value_fails(write, check):
    content = vectors()
    content["models"]["mwp_cwp_pipeline"][2]["out"]["cpr"] *= 1 + 1e-8
    code, out, _ = check(write(content))
    assert code == 1
    [failed] = [line for line in out.splitlines() if "FAILED" in line]
    assert failed.split()[0] == "mwp_cwp_pipeline"
    assert "case 2, cpr" in failed


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        "3",
        "{}",
        '{"models": []}',
        '{"models": {"volkov": {}}}',
        '{"models": {"volkov": [{"in": {}}]}}',
        '{"models": {"volkov": [{"in": {"omega": 1}, "out": {"wpc": 1}}]}}',
        json.dumps({"models": {"roofline": [{"in": EXAMPLE, "out": {"x": 1}}]}}),
        '{"models": {"roofline": []}}',
    ],
)
def test_a_malformed_file_is_named(write, check, content):
    path = write(content)
    code, out, err = check(path)
    assert code == 2
    assert out == ""
    assert err.startswith(f"{path}: found ")
    assert ", expected " in err
    assert err.count("\n") == 1


def test_a_missing_file_is_named(tmp_path, check):
    code, _, err = check(tmp_path / "none.json")
    assert code == 2
    assert err.startswith(f"{tmp_path / 'none.json'}: found ")

"""The script that compares the simulator with a file of vectors, as a user runs it."""

import json
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "validate" / "check_vectors.py"


@pytest.fixture
def check(monkeypatch, capsys, tmp_path):
    """The script on a file with this content: exit code, stdout, stderr."""

    def run(content, *options):
        path = tmp_path / "vectors.json"
        path.write_text(content)
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(path), *options])
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(SCRIPT), run_name="__main__")
        return end.value.code, *capsys.readouterr()

    return run


def one_case():
    vectors = json.loads((ROOT / "tests" / "simulator" / "vectors.json").read_text())
    return vectors | {"cases": vectors["cases"][:1]}


def test_a_case_that_holds(check):
    code, out, err = check(json.dumps(one_case()))
    assert (code, err) == (0, "")
    assert out.startswith("1 cases: makespan 1, entries 1, critical 1, busy 1 hold; 1 in ticks, 0 in float64")


def test_a_case_that_misses(check):
    content = one_case()
    content["cases"][0]["expect"]["makespan"] += 1
    code, out, _ = check(json.dumps(content))
    assert code == 1
    assert out.startswith(f"case {content['cases'][0]['id']}: missed makespan\n")
    code, out, _ = check(json.dumps(content), "--json")
    assert code == 1
    assert set(json.loads(out)) == {"cases", "held", "in_ticks", "entries", "missed"}


@pytest.mark.parametrize("content", ["{", "[]", '{"format": "another"}'])
def test_a_file_of_another_form(check, tmp_path, content):
    code, out, err = check(content)
    assert (code, out) == (2, "")
    assert err.startswith(f"{tmp_path / 'vectors.json'}: ")
    assert err.count("\n") == 1

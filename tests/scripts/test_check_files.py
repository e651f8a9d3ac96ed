"""The scripts that compare closed forms and the simulator with files of vectors, as a user runs them."""

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import check_models
import pytest

ROOT = Path(__file__).parents[2]
SHIPPED = json.loads((ROOT / "tests" / "models" / "vectors.json").read_text())["models"]


def of_models() -> dict[str, Any]:
    """Two models that `dse` has, and one that it has not."""
    models = {name: SHIPPED[name] for name in ("roofline", "mwp_cwp_pipeline")}
    return {"format": "model-vectors 1", "models": models | {"no_such_model": [{"in": {}, "out": {}}]}}


def of_the_simulator() -> dict[str, Any]:
    vectors = json.loads((ROOT / "tests" / "simulator" / "vectors.json").read_text())
    return vectors | {"cases": vectors["cases"][:1]}


@pytest.fixture
def check(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., tuple[Any, str, str]]:
    """A script in this process, on a file with this content: exit code, stdout, stderr."""

    def run(name: str, content: Any, *options: str) -> tuple[Any, str, str]:
        script, path = ROOT / "scripts" / "validate" / f"check_{name}.py", tmp_path / "vectors.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        monkeypatch.setattr(sys, "argv", [str(script), str(path), *options])
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(script), run_name="__main__")
        said = capsys.readouterr()
        return end.value.code, said.out, said.err

    return run


@pytest.mark.slow
def test_models_that_agree_and_one_that_is_absent(check):
    code, out, err = check("models", of_models())
    assert (code, err) == (0, "")
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert list(lines) == list(of_models()["models"])
    assert lines.pop("no_such_model").endswith("absent")
    assert all("24 cases  worst relative error" in line and "FAILED" not in line for line in lines.values())
    report = json.loads(check("models", of_models(), "--json")[1])
    assert (report["passed"], report["allowed"]) == (True, 1e-9)
    assert [row["worst"] is None or row["worst"] < 1e-12 for row in report["models"]] == [True] * 3


@pytest.mark.slow
@pytest.mark.parametrize("model", SHIPPED)
def test_a_wrong_value_of_a_model_fails(model):
    case = SHIPPED[model][2]
    for name, value in case["out"].items():
        wrong = "none" if isinstance(value, str) else value * (1 + 1e-8) or 1e-8
        cases = [case, {"in": case["in"], "out": case["out"] | {name: wrong}}]
        row = check_models.compare(model, cases)
        assert row["worst"] > check_models.ALLOWED
        assert row["at"] == f"case 1, {name}"


@pytest.mark.slow
def test_a_file_with_a_wrong_value_fails(check):
    content = of_models()
    content["models"]["mwp_cwp_pipeline"][2]["out"]["cpr"] *= 1 + 1e-8
    code, out, _ = check("models", content)
    [failed] = [line for line in out.splitlines() if "FAILED" in line]
    assert (code, failed.split()[0], "case 2, cpr" in failed) == (1, "mwp_cwp_pipeline", True)


@pytest.mark.slow
def test_cases_of_the_simulator(check):
    content = of_the_simulator()
    code, out, err = check("vectors", content)
    assert (code, err) == (0, "")
    assert out.startswith("1 cases: makespan 1, entries 1, critical 1, busy 1 hold; 1 in ticks, 0 in float64")
    content["cases"][0]["expect"]["makespan"] += 1
    code, out, _ = check("vectors", content)
    assert code == 1
    assert out.startswith(f"case {content['cases'][0]['id']}: missed makespan\n")
    code, out, _ = check("vectors", content, "--json")
    assert (code, set(json.loads(out))) == (1, {"cases", "held", "in_ticks", "entries", "missed"})


@pytest.mark.parametrize("name", ["models", "vectors"])
@pytest.mark.parametrize(
    "content", ["{", "[]", '{"format": "another"}', '{"models": {"volkov": [{"in": {}}]}}']
)
def test_a_malformed_file_is_named(check, tmp_path, name, content):
    code, out, err = check(name, content)
    assert (code, out) == (2, "")
    assert err.startswith(f"{tmp_path / 'vectors.json'}: ")
    assert err.count("\n") == 1

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
    code, out, err = check("models", content)
    agrees, failed, absent = out.splitlines()
    assert (code, err, agrees.split()[0], "FAILED" in agrees) == (1, "", "roofline", False)
    assert (failed.split()[0], "FAILED" in failed, "case 2, cpr" in failed) == (
        "mwp_cwp_pipeline",
        True,
        True,
    )
    assert (absent.split()[0], absent.split()[-1]) == ("no_such_model", "absent")
    report = json.loads(check("models", content, "--json")[1])
    assert (report["passed"], report["allowed"], len(report["models"])) == (False, 1e-9, 3)


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

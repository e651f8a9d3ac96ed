"""The simulator against independent implementations, on the vectors of vectors.json."""

import json
from copy import deepcopy
from pathlib import Path

import pytest
from check_vectors import FORMAT, compare

from dse.errors import DseError

VECTORS = json.loads(Path(__file__).with_name("vectors.json").read_text())


@pytest.mark.slow
def test_equals_the_other_implementations():
    totals = compare(VECTORS, "vectors.json")
    assert totals["missed"] == []
    assert totals["held"] == dict.fromkeys(("makespan", "entries", "critical", "busy"), totals["cases"])
    assert 0 < totals["in_ticks"] < totals["cases"]
    assert totals["entries"] == sum(case["expect"]["entries"] for case in VECTORS["cases"])


@pytest.mark.parametrize(
    ("at", "missed"),
    [
        (("makespan",), "makespan"),
        (("entries",), "entries"),
        (("busy", 0), "busy"),
        (("critical", "valve"), "critical"),
        (("critical", "lam", 0, 0), "critical"),
        (("critical", "Lam", 0, 0), "critical"),
        (("critical", "self", 0, 0), "critical"),
    ],
)
def test_every_wrong_value_is_seen(at, missed):
    case = deepcopy(VECTORS["cases"][0])
    *path, last = at
    values = case["expect"]
    for key in path:
        values = values[key]
    values[last] += 1
    totals = compare({"format": FORMAT, "cases": [case]}, "vectors.json")
    assert totals["missed"] == [{"id": case["id"], "missed": [missed]}]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ([], "vectors.json: format: found 'list', expected 'pipeline-vectors 1'"),
        ({"format": "2"}, "vectors.json: format: found '2', expected 'pipeline-vectors 1'"),
        (
            {"format": FORMAT, "cases": [{"id": 7, "S": 0}]},
            "vectors.json: case 7: S: found 0, expected 1",
        ),
    ],
)
def test_another_form(content, expected):
    with pytest.raises(DseError) as error:
        compare(content, "vectors.json")
    assert str(error.value).startswith(expected)

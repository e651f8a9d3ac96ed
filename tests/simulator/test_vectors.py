"""The simulator against independent implementations, on the vectors of vectors.json."""

import json
from pathlib import Path

import pytest
from check_vectors import compare

from dse.errors import DseError

VECTORS = json.loads(Path(__file__).with_name("vectors.json").read_text())


@pytest.mark.parametrize("step", [25, pytest.param(1, marks=pytest.mark.slow)])
def test_equals_the_other_implementations(step):
    some = VECTORS["cases"][::step]
    totals = compare(VECTORS | {"cases": some}, "vectors.json")
    assert totals["missed"] == []
    assert totals["held"] == dict.fromkeys(("makespan", "entries", "critical", "busy"), len(some))
    assert 0 < totals["in_ticks"] < len(VECTORS["cases"])
    assert totals["entries"] == sum(case["expect"]["entries"] for case in some)


def test_an_argument_that_is_no_vector_is_reported():
    wrong = VECTORS["cases"][0] | {"S": 0}
    with pytest.raises(DseError, match=r"^vectors.json: case .*: S: found 0, expected 1"):
        compare(VECTORS | {"cases": [wrong]}, "vectors.json")

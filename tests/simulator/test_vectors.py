"""The simulator against independent implementations, on the vectors of vectors.json."""

import json
from pathlib import Path

import pytest
from check_vectors import compare

VECTORS = json.loads(Path(__file__).with_name("vectors.json").read_text())


@pytest.mark.slow
def test_equals_the_other_implementations():
    totals = compare(VECTORS, "vectors.json")
    assert totals["missed"] == []
    assert totals["held"] == dict.fromkeys(("makespan", "entries", "critical", "busy"), totals["cases"])
    assert 0 < totals["in_ticks"] < totals["cases"]
    assert totals["entries"] == sum(case["expect"]["entries"] for case in VECTORS["cases"])

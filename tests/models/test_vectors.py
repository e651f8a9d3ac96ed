"""Every closed form against an independent implementation in plain Python, on the vectors of vectors.json."""

import json
from pathlib import Path

import pytest
from check_models import ALLOWED, MODELS, compare

VECTORS = json.loads(Path(__file__).with_name("vectors.json").read_text())["models"]


def test_every_model_has_vectors():
    assert set(VECTORS) == set(MODELS)


@pytest.mark.quick("wfg_graph", "mwp_cwp_corrected")
@pytest.mark.parametrize("model", VECTORS)
def test_equals_the_other_implementation(model):
    row = compare(model, VECTORS[model])
    assert row["cases"] >= 20
    assert row["worst"] <= ALLOWED, row["at"]

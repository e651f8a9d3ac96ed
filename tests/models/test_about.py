"""What the models say of themselves, against Lemeire et al., Table 7."""

import pytest

from dse.models import DEFAULT, MODELS, module
from dse.models.about import ASPECTS, About
from dse.reproduce.papers import table


@pytest.mark.parametrize("name", MODELS)
def test_is_complete(name):
    about = module(name).ABOUT
    assert about.source
    assert about.use_when.endswith(".")
    assert about.equations
    assert about.inputs
    assert about.ignores
    assert about.use_when.startswith("By default") == (name == DEFAULT)


def test_knows_its_aspects():
    symbols = {"Lambda_comp": "Λ_comp", "Lambda_mem": "Λ_mem"}
    printed = [row["aspect"] for row in table("lemeire_table_7")]
    assert tuple(symbols.get(name, name.replace("_", " ")) for name in printed) == ASPECTS
    with pytest.raises(ValueError, match=r"^aspects: found \['speed'\], expected some of ILP, "):
        About("", {}, (), (), "", frozenset({"speed"}))

"""Which tables rules were chosen on is said at the head of each."""

from pathlib import Path

from dse.accuracy.chosen import chosen_on, rules
from dse.accuracy.models import described, markdown


def test_a_table_that_rules_were_chosen_on_says_which():
    path = Path("any/gemm/RTX_3090.csv.gz")
    assert "loads and sums in turn" in chosen_on(path, "description")
    assert chosen_on(path, "source") == ""


def test_rules_of_one_source_of_counts_are_not_told_of_the_other():
    path = Path("convolution_ktt/RTX_2080_Ti.csv.gz")
    assert "long code" in chosen_on(path, "source")
    assert "long code" not in chosen_on(path, "description")
    assert "unaligned load" in chosen_on(path, "source")


def test_a_rule_names_some_table():
    assert all(rule.tables and all("/" in table for table in rule.tables) for rule in rules())


def test_an_unseen_table_says_so(folder):
    printed = markdown(described(folder, ["phase"]))
    assert "1 of them failed; 0 predicted impossible. No rule was chosen on this table.\n" in printed

"""What is written holds the kept configurations, no more and no fewer, for the program that it is for."""

import ast
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_tuner.searchspace import Searchspace

from dse.bridges import export
from dse.core.space import Space
from dse.errors import DseError
from dse.source.readers import t1 as t1_files

KEPT = {"block": np.array([128, 64, 64, 256]), "items": np.array([2, 1, 2, 1])}
ROWS = [(128, 2), (64, 1), (64, 2), (256, 1)]


def read_back(path) -> set[tuple]:
    columns = t1_files.load(path).space.configurations()
    return set(zip(*(column.tolist() for column in columns.values()), strict=True))


@st.composite
def some_of_a_space(draw):
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    step = draw(st.sampled_from([1, 16, 0.1, -3]))
    place = st.tuples(*(st.integers(0, size - 1) for size in sizes))
    return [
        tuple(item * step for item in row)
        for row in draw(st.lists(place, min_size=1, max_size=40, unique=True))
    ]


@settings(max_examples=50)
@given(rows=some_of_a_space(), longest=st.sampled_from([0, 40, 3000]))
def test_conditions_hold_for_exactly_what_was_kept(rows, longest):
    """However short they must be: those of large spaces are split."""
    values = {f"p{i}": sorted(set(column)) for i, column in enumerate(zip(*rows, strict=True))}
    columns = Space(values, tuple(export.conditions(frozenset(rows), values, longest))).configurations()
    assert set(zip(*(column.tolist() for column in columns.values()), strict=True)) == set(rows)


def test_no_condition_is_too_long_to_be_read(tmp_path):
    selected = np.random.default_rng(0).choice(300 * 40, 2000, replace=False)
    columns = {"a": 16 * (selected // 40), "b": selected % 40}
    export.t1(columns, tmp_path / "kept.json")
    kept = zip(*(column.tolist() for column in columns.values()), strict=True)
    assert read_back(tmp_path / "kept.json") == set(kept)


def test_t1_of_a_problem_keeps_all_but_its_space(tmp_path):
    export.t1({"block": [32, 64], "items": [1, 1]}, tmp_path / "T1.json")
    problem = json.loads((tmp_path / "T1.json").read_text())
    problem["KernelSpecification"]["LocalSize"] = {"X": "block"}
    (tmp_path / "T1.json").write_text(json.dumps(problem))
    export.t1(KEPT, tmp_path / "kept.json", tmp_path / "T1.json")
    kept = t1_files.load(tmp_path / "kept.json")
    assert kept.block[0].names == {"block"}
    assert read_back(tmp_path / "kept.json") == set(ROWS)
    with pytest.raises(DseError, match=r"T1.json: TuningParameters: found block, items, expected block$"):
        export.t1({"block": [32]}, tmp_path / "kept.json", tmp_path / "T1.json")


def test_kernel_tuner_takes_the_python_file_and_the_json_as_a_cache(tmp_path):
    export.kernel_tuner(KEPT, tmp_path / "kept.py")
    names: dict = {}
    exec((tmp_path / "kept.py").read_text(), names)
    space = Searchspace(names["tune_params"], names["restrictions"], 1024)
    assert set(space.list) == set(ROWS)
    export.kernel_tuner(KEPT, tmp_path / "kept.json")
    nothing: Any = None  # all comes from the file
    kept = json.loads((tmp_path / "kept.json").read_text())
    space = Searchspace(nothing, nothing, nothing, from_cache=kept)
    assert space.list == ROWS


def test_triton_configurations(tmp_path):
    unset = {"num_stages": [0, 2], "maxnreg": [0, 0], "waves_per_eu": [0, 2]}  # as of an autotuner's list
    kept = {"BLOCK": [128, 64], "num_warps": [4, 2], "split": ["yes", "no"]} | unset
    export.triton(kept, tmp_path / "configs.py")
    made = []

    def config(*given, **options):
        made.append((given, options))

    tree = ast.parse((tmp_path / "configs.py").read_text())
    tree.body = [item for item in tree.body if not isinstance(item, ast.Import)]
    names = {"triton": type("triton", (), {"Config": config})}
    exec(compile(tree, "configs.py", "exec"), names)
    assert made == [
        (({"BLOCK": 128, "split": "yes"},), {"num_warps": 4}),
        (({"BLOCK": 64, "split": "no", "waves_per_eu": 2},), {"num_warps": 2, "num_stages": 2}),
    ]


def test_mistakes(tmp_path):
    with pytest.raises(DseError, match=r"^configurations: found none, expected at least one$"):
        export.t1({"block": []}, tmp_path / "kept.json")
    with pytest.raises(DseError, match=r"kept.json: mode: found 'a', expected a number$"):
        export.t1({"mode": ["a"]}, tmp_path / "kept.json")
    with pytest.raises(DseError, match=r"kept.txt: suffix: found .txt, expected .py or .json$"):
        export.kernel_tuner(KEPT, tmp_path / "kept.txt")
    with pytest.raises(DseError, match=r"none.json: cannot read: No such file or directory$"):
        export.t1(KEPT, tmp_path / "kept.json", tmp_path / "none.json")
    assert not list(tmp_path.iterdir())

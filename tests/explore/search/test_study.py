"""Studies: variants, constraints without model calls, batches, resuming, and how close they end."""

import itertools
import pickle
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optuna.trial import TrialState

from dse import kernels
from dse.core.space import Space, parse
from dse.errors import DseError
from dse.explore.search import study
from dse.explore.search.samplers import SAMPLERS, suitable
from dse.hardware import gpus


@pytest.fixture(scope="module")
def gpu():
    return gpus.load("a100").gpu


@pytest.fixture
def choices(toy_kernel):
    """Two variants: the toy kernel, and one with larger blocks only."""
    toy = kernels.load(toy_kernel)
    large = replace(toy, name="large", space=toy.space.with_values({"block": [512, 1024]}))
    return study.variants([(toy, toy.sizes()), (large, large.sizes())])


def search(choices, gpu, trials=60, chosen="tpe", **options):
    actual = study.start(choices, "a100", "volkov", ("time",), chosen, seed=1, **options)
    study.run(actual, gpu, "volkov", trials)
    return actual


HERE = [name for name in SAMPLERS if name != "auto" and (name != "gp" or find_spec("torch"))]


@pytest.mark.slow
@pytest.mark.parametrize("chosen", HERE)
def test_every_sampler_finds_the_optimum_of_a_small_space(choices, gpu, chosen):
    actual = search(choices, gpu, 80, chosen)
    rows = actual.rows()
    assert len(actual.evaluated()) == 80
    assert {row["kernel"] for row in rows} == {"toy", "large"}
    assert [row["time_s"] for row in rows] == sorted(row["time_s"] for row in rows)
    for row in rows:
        optimum = study.optimum(choices[row["kernel"]], gpu, "volkov")
        assert optimum is not None
        assert optimum <= row["time_s"] <= 1.05 * optimum


@pytest.mark.slow
def test_near_the_optimum_of_a_large_space(gpu):
    gemm = kernels.load("gemm")
    values: dict[str, Any] = dict.fromkeys(("MDIMC", "NDIMC", "MDIMA", "NDIMB"), (4, 8, 16, 32, 64))
    space = gemm.space.with_values(values)
    large = replace(gemm, space=space)
    parameters = space.configurations(gemm.sizes())
    evaluation = study.evaluate(large, ("phase",), study.stack([gpu]), parameters, gemm.sizes())
    best = float(evaluation.forecasts["phase"].seconds.min())
    actual = study.start(study.variants([(large, large.sizes())]), "a100", "phase", ("time",), "tpe", seed=1)
    study.run(actual, gpu, "phase", 200)
    assert actual.best is not None
    assert actual.best["time_s"] <= 1.02 * best


@pytest.mark.slow
def test_resumes_from_storage(choices, gpu, tmp_path):
    def steps_and_trials(most):
        def advance(done):
            steps.append(done)
            if sum(steps) >= most:
                raise KeyboardInterrupt

        steps, storage = [], f"sqlite:///{tmp_path / 'study.db'}"
        actual = study.start(choices, "a100", "volkov", ("time",), seed=1, storage=storage)
        with suppress(KeyboardInterrupt):
            study.run(actual, gpu, "volkov", 3 * study.BATCH, advance)
        return steps, [(trial.params, trial.values) for trial in actual.study.trials]

    first, second, third = (steps_and_trials(most) for most in (study.BATCH, np.inf, np.inf))
    assert first[0] == [0, study.BATCH]
    assert second[0] == [study.BATCH] * 3  # the batch that was told is not done again
    assert third == ([3 * study.BATCH], second[1])


@pytest.mark.slow
def test_processes_together_store_as_many_trials_as_asked(choices, gpu, tmp_path):
    storage = f"sqlite:///{tmp_path / 'study.db'}"

    def meanwhile(done):
        if done == study.BATCH:  # another process adds 10 fewer than are wanted
            search(choices, gpu, 30, storage=storage)

    first = study.start(choices, "a100", "volkov", ("time",), seed=1, storage=storage)
    study.run(first, gpu, "volkov", 40, meanwhile)
    assert len(first.evaluated()) == 40
    assert sum(trial.state == TrialState.FAIL for trial in first.study.get_trials()) == 10
    kept = study.start(choices, "a100", "volkov", ("time",), storage=storage)
    assert len(kept.evaluated()) == 40 == len(kept.study.get_trials())
    assert first.kept is not None
    assert {trial.user_attrs["process"] for trial in kept.study.get_trials()} > {first.kept.process}


def test_several_objectives(choices, gpu):
    goals = study.objectives("time,registers,shared")
    actual = study.start(choices, "a100", "volkov", goals, "nsga2", seed=1)
    study.run(actual, gpu, "volkov", 60)
    front = actual.front()
    assert front == sorted(front, key=lambda row: row["time_s"])
    for row, other in itertools.product(front, front):
        assert not (other["time_s"] < row["time_s"] and other["registers"] < row["registers"])
    for text, expected in (("speed", "objective: found 'speed'"), ("registers,time", "expected time")):
        with pytest.raises(DseError, match=expected):
            study.objectives(text)
    with pytest.raises(DseError, match="sampler: found 'cmaes' for 2 objectives, expected tpe, "):
        suitable("cmaes", goals=2)


def test_impossible_launches_are_not_scored(toy_kernel, gpu):
    toy = kernels.load(toy_kernel)
    huge = replace(toy, space=toy.space.with_values({"block": [64, 1024]}))
    actual = search(study.variants([(huge, huge.sizes())]), gpus.load("gtx-280").gpu, 40)
    assert any(t.user_attrs.get("why not") == "cannot run" for t in actual.evaluated())
    assert actual.best is not None
    assert actual.best["block"] == 64
    actual = study.start(only(toy_kernel, "block == 640"), "a100", "volkov", ("time",), "random")
    study.run(actual, gpu, "volkov", 2, batch=2)
    assert {row["block"] for row in actual.rows()} == {640}
    none = study.start(only(toy_kernel, "block == 0"), "a100", "volkov", ("time",), "random")
    with pytest.raises(DseError, match=r"constraints: found no valid configuration of 40,000"):
        study.run(none, gpu, "volkov", 2, batch=2)


def only(toy_kernel, constraint):
    toy = kernels.load(toy_kernel)
    space = Space({"block": list(range(1, 20_001)), "items": [1, 2]}, (parse(constraint, "here"),))
    return study.variants([(replace(toy, space=space), toy.sizes())])


@pytest.fixture
def broken(choices):
    """A row that breaks a constraint of the toy kernel, and one that holds it."""
    variant = choices["toy"]
    rows = [{"block": b, "items": i} for b in variant.free["block"] for i in variant.free["items"]]
    holds = [bool(variant.kernel.space.valid(row, variant.problem, np)) for row in rows]
    return [{"variant": "toy"} | rows[holds.index(item)] for item in (False, True)]


@pytest.mark.parametrize("chosen", ["tpe", "nsga2", "nsga3", "random"])
def test_what_breaks_a_constraint_is_complete_and_infeasible_or_pruned(choices, gpu, broken, chosen):
    actual = study.start(choices, "a100", "volkov", ("time",), chosen, seed=1)
    study.enqueue(actual, broken, "here")
    study.run(actual, gpu, "volkov", 20)
    first, *trials = actual.study.get_trials()
    assert len(actual.evaluated()) == 20 == len(trials)
    assert all(np.isfinite(trial.values[0]) for trial in trials)
    if chosen == "random":  # which knows no constraints
        assert first.state == TrialState.PRUNED
        return
    assert first.state == TrialState.COMPLETE
    assert first.constraints["broken"] > 0
    assert np.isinf(first.values[0])
    assert all(trial.constraints["broken"] == 0 for trial in trials)
    assert actual.study.best_trial.constraints == {"broken": 0, "impossible": 0}


def test_given_configurations_are_tried_first(choices, gpu):
    rows = [
        {"kernel": "toy", "block": 64, "items": 2, "time_s": 1.0},
        {"kernel": "large", "block": 512, "items": 1},
        {"kernel": "toy", "block": 64, "items": 2},
    ]
    actual = study.start(choices, "a100", "volkov", ("time",), seed=1)
    assert study.enqueue(actual, rows, "best.csv") == 2
    study.run(actual, gpu, "volkov", 10)
    first, second = (trial.params for trial in actual.study.get_trials()[:2])
    block = choices["toy"].kernel.space.values["block"]
    assert (first["variant"], block[first["toy.block"]], second["variant"]) == ("toy", 64, "large")
    assert study.enqueue(actual, rows, "best.csv") == 0  # all tried
    for row, problem in (
        ({"kernel": "tiny"}, "row 1: variant: found 'tiny'"),
        ({"kernel": "toy", "block": 64}, "row 1: items: found none, expected a value"),
        ({"kernel": "toy", "block": 63, "items": 1}, "row 1: block: found 63, expected one of 32"),
    ):
        with pytest.raises(DseError, match=f"best.csv: {problem}"):
            study.enqueue(actual, [row], "best.csv")


class Hostile:
    """What a stranger's study holds where Optuna keeps the state of CMA-ES: unpickled, it writes a file."""

    def __init__(self, file: Path):
        self.file = file

    def __reduce__(self):
        return (open, (str(self.file), "w"))


@pytest.mark.quick("journal")
@pytest.mark.parametrize("kind", ["sqlite:///", "journal:"])
def test_nothing_of_a_study_is_unpickled(toy_kernel, gpu, tmp_path, kind):
    url, hostile = f"{kind}{tmp_path / 'study'}", pickle.dumps(Hostile(tmp_path / "written")).hex()
    toy = kernels.load(toy_kernel)
    alone = study.variants([(toy, toy.sizes())])
    first = search(alone, gpu, 10, storage=url)
    assert first.kept is not None
    [trial, *_] = first.kept.study.get_trials()
    trial.system_attrs = {"cma:optimizer:0": hostile, "cma:generation": 0}
    first.kept.study.add_trial(trial)
    second = search(alone, gpu, 30, "cmaes", storage=url)
    assert not (tmp_path / "written").exists()
    assert not any("cma" in name for t in second.study.get_trials()[:11] for name in t.system_attrs)
    assert second.kept is not None
    added = second.kept.study.get_trials()[11:]
    assert not any(name for item in added for name in item.system_attrs if not name.startswith("constraints"))

"""Optuna studies with the sampler: in memory, from storage, with failures and with parameters of others."""

import itertools
from typing import Any

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from dse.bridges.optuna import ModelGuidedSampler, warm_start
from dse.errors import DseError
from dse.explore.tune.predictor import Predictor

BLOCKS = [32, 64, 128, 256, 512]
SPACE = {"block": CategoricalDistribution(BLOCKS), "items": IntDistribution(1, 4)}
ROWS = list(itertools.product(BLOCKS, (1, 2, 3, 4)))  # all keep the constraints of the toy


@pytest.fixture(autouse=True)
def quiet():
    optuna.logging.set_verbosity(optuna.logging.WARNING)


@pytest.fixture
def sampler(toy_kernel):
    def made(**settings):
        return ModelGuidedSampler(toy_kernel, "a100-pcie-40gb", "roofline", **settings)

    return made


def chosen(study):
    return [(trial.params["block"], trial.params["items"]) for trial in study.trials]


def objective(trial):
    block, items = trial.suggest_categorical("block", BLOCKS), trial.suggest_int("items", 1, 4)
    if block == 512 and items == 1:
        raise optuna.TrialPruned
    return 1.0 + abs(block - 128) / 64 + abs(items - 2)


def test_the_model_says_where_to_begin_and_the_fastest_is_found(sampler, toy_kernel):
    study = optuna.create_study(sampler=sampler(space=SPACE))
    study.optimize(objective, n_trials=10)
    assert study.best_params == {"block": 128, "items": 2}
    assert len(set(chosen(study))) == 10
    columns: Any = dict(zip(("block", "items"), zip(*ROWS, strict=True), strict=True))
    log_s = Predictor(toy_kernel, "a100-pcie-40gb", "roofline").candidates(columns, "here").log_s
    assert log_s[ROWS.index(chosen(study)[0])] == log_s.min()


def test_without_the_space_the_first_trial_tells_it_and_others_parameters_stay_others(sampler):
    def with_another(trial):
        assert 0 <= trial.suggest_float("another", 0, 1) <= 1
        return objective(trial)

    study = optuna.create_study(sampler=sampler(seed=3))
    study.optimize(with_another, n_trials=12)
    assert study.best_params.items() >= {"block": 128, "items": 2}.items()
    assert len(set(chosen(study))) == 12


def test_a_study_from_storage_goes_on_as_if_it_had_not_stopped(sampler, tmp_path):
    def some(storage, *parts):
        study = None
        for trials in parts:
            study = optuna.create_study(
                study_name="toy", storage=storage, sampler=sampler(space=SPACE), load_if_exists=True
            )
            study.optimize(objective, n_trials=trials)
        assert study is not None
        return chosen(study)

    file = JournalFileBackend(str(tmp_path / "toy.log"))
    assert some(JournalStorage(file), 3, 4) == some(None, 7)


def test_what_is_being_measured_is_not_asked_for_again(sampler):
    study = optuna.create_study(sampler=sampler(space=SPACE))
    for _ in range(4):
        trial = study.ask()
        trial.suggest_categorical("block", BLOCKS)
        trial.suggest_int("items", 1, 4)
    assert len(set(chosen(study))) == 4


def test_failed_and_pruned_trials_are_not_asked_for_again(sampler):
    def fails(trial):
        block, items = trial.suggest_categorical("block", BLOCKS), trial.suggest_int("items", 1, 4)
        if items > 2:
            trial.report(1.0, step=0)  # what it came to before it was given up
            raise optuna.TrialPruned
        if items > 1:
            raise ArithmeticError
        return float(block)

    study = optuna.create_study(sampler=sampler(space=SPACE))
    study.optimize(fails, n_trials=21, catch=ArithmeticError)  # the last one: all were tried, another samples
    assert set(chosen(study)) == set(ROWS)
    assert study.best_params == {"block": 32, "items": 1}


def test_values_are_those_of_the_kernel_within_the_distribution(sampler):
    space = {"block": IntDistribution(40, 300), "size": FloatDistribution(0.5, 3.5)}
    guided = sampler(space=space, rename={"size": "items"})
    study = optuna.create_study(sampler=guided)
    study.optimize(lambda t: t.suggest_int("block", 40, 300) + t.suggest_float("size", 0.5, 3.5), 10)
    # of the blocks 48, 64, 96, 128 and 256 its constraints forbid 96, and 48 with several items
    actual = {(trial.params["block"], trial.params["size"]) for trial in study.trials}
    assert actual == {(48, 1.0), *itertools.product((64, 128, 256), (1.0, 2.0, 3.0))}


def test_mistakes(sampler):
    def run(sampler, objective=objective, **settings):
        optuna.create_study(sampler=sampler, **settings).optimize(objective, n_trials=2)

    with pytest.raises(DseError, match=r"^study: found no 'items', expected the parameters of toy"):
        run(sampler(), lambda trial: trial.suggest_categorical("block", BLOCKS))
    with pytest.raises(DseError, match=r"^study: found 'size', no 'block', no 'items', expected"):
        run(sampler(), lambda trial: trial.suggest_int("size", 1, 4))
    with pytest.raises(DseError, match=r"^study: block: found IntDistribution.*, expected some of 32, 48"):
        run(sampler(), lambda trial: trial.suggest_int("block", 33, 40) + trial.suggest_int("items", 1, 4))
    with pytest.raises(DseError, match=r"^study: objective: found -1.0, expected a number above 0$"):
        run(sampler(space=SPACE), lambda trial: min(-1.0, objective(trial)))
    with pytest.raises(DseError, match=r"^study: found 2 objectives, expected one$"):
        run(sampler(space=SPACE), lambda trial: (objective(trial), 1.0), directions=["minimize", "minimize"])


def test_a_warm_start_tries_the_best_predicted_first(toy_kernel):
    from dse import api

    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    warm_start(study, toy_kernel, "a100-pcie-40gb", 3, "transit")
    study.optimize(objective, 4)
    rows = api.rank(toy_kernel, "a100-pcie-40gb", "transit").rows(3, diverse=True)
    assert chosen(study)[:3] == [(row["block"], row["items"]) for row in rows]
    warm_start(study, toy_kernel, "a100-pcie-40gb", 1, rename={"threads": "block"})
    assert set(study.get_trials()[-1].system_attrs["fixed_params"]) == {"threads", "items"}
    with pytest.raises(DseError, match="rename: found 'threads', expected one of block, items"):
        warm_start(study, toy_kernel, "a100-pcie-40gb", rename={"block": "threads"})

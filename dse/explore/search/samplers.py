"""Optuna's samplers by name, and the automatic choice."""

import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

from optuna.exceptions import ExperimentalWarning
from optuna.samplers import (
    BaseSampler,
    CmaEsSampler,
    GPSampler,
    NSGAIIISampler,
    NSGAIISampler,
    QMCSampler,
    RandomSampler,
    TPESampler,
)
from optuna.trial import FrozenTrial

from dse.core.optional import install, needs
from dse.errors import DseError, one_of
from dse.explore.search.bounded import Bounded

SAMPLERS = ("tpe", "gp", "nsga2", "nsga3", "cmaes", "qmc", "random", "auto")
STARTUP = 100  # random trials before TPE's own, at most, and at most a tenth
FEW = 300  # most trials for which `auto` chooses Gaussian processes, the slowest


def constrained(sampler: BaseSampler) -> bool:
    """Whether a sampler learns from complete trials that break constraints."""
    return isinstance(sampler, TPESampler | Bounded | NSGAIISampler | NSGAIIISampler)


def suitable(name: str, trials: int = FEW, goals: int = 1, variants: int = 1) -> str:
    """Return the name of a sampler; `auto` chooses by trials, objectives and variants.

    **Raises:** DseError for another name, one whose package is missing, or CMA-ES with several objectives.
    """
    if name not in SAMPLERS:
        raise DseError(f"sampler: found {name!r}, {one_of(name, SAMPLERS)}")
    if name == "cmaes" and goals > 1:
        raise DseError(f"sampler: found 'cmaes' for {goals} objectives, expected tpe, nsga2 or nsga3")
    if name == "auto":
        return _suitable(trials, goals, variants)
    if name == "gp":
        _expect_torch()
    return name


def sampler(name: str, seed: int | None, trials: int = FEW, known: Sequence[FrozenTrial] = ()) -> BaseSampler:
    """Create the Optuna sampler of a name that `suitable` returned.

    CMA-ES has a state besides its study's trials, which Optuna pickles; instead of reading that, it starts
    with the mean and covariance of the best of the `known` complete trials (Nomura et al., AAAI 2021).
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        match name:
            case "tpe":  # group: one model a variant; constant_liar: diverse batches
                return TPESampler(
                    multivariate=True,
                    group=True,
                    constant_liar=True,
                    n_startup_trials=min(max(trials // 10, 10), STARTUP),
                    seed=seed,
                )
            case "gp":
                return Bounded(
                    GPSampler(seed=seed, deterministic_objective=True, warn_independent_sampling=False)
                )
            case "nsga2":
                return NSGAIISampler(seed=seed)
            case "nsga3":
                return NSGAIIISampler(seed=seed)
            case "cmaes":
                return CmaEsSampler(
                    seed=seed, warn_independent_sampling=False, source_trials=list(known) or None
                )
            case "qmc":
                return QMCSampler(
                    seed=seed, scramble=True, warn_independent_sampling=False, warn_asynchronous_seeding=False
                )
            case _:
                return RandomSampler(seed=seed)


def _suitable(trials: int, goals: int, variants: int) -> str:
    """Choose the sampler that learns most from few trials without being too slow."""
    if goals > 1:
        return "nsga3" if goals > 3 else "nsga2" if trials > 1_000 else "tpe"
    if trials <= FEW and variants == 1:
        with suppress(DseError):
            _expect_torch()
            return "gp"
    return "tpe"


def _expect_torch() -> None:
    with needs("torch", "for the sampler gp " + install("gp")):
        import_module("torch")  # used by Optuna's Gaussian processes

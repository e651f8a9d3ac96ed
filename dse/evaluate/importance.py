"""Share of the variance of log time explained by each parameter."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np


class Share(NamedTuple):
    """The share of one parameter, from 0 to 1."""

    first: float  # of the parameter alone
    total: float  # including its interactions; NaN if too few configurations determine it


FEWEST = 10  # configurations for meaningful shares
ENOUGH = 0.5  # share of configurations that need another one that differs in the parameter only


def importance(
    codes: Mapping[str, np.ndarray], times: Mapping[str, np.ndarray]
) -> dict[str, dict[str, Share]]:
    """Compute each parameter's share of the variance of log time, by name of `times`, then parameter.

    First order, Var(E[log t | x]) / Var(log t), is the variance removed by knowing the parameter. Total,
    E[Var(log t | all others)] / Var(log t), is the variance left by knowing all others. They are Sobol's
    indices if the space is a full grid; constraints correlate parameters, so that shares may overlap.

    **Shapes:** codes (indices of values) and times [L]; times not finite and positive are excluded.
    **Source:** Sobol, Mathematics and Computers in Simulation 55 (2001); Homma & Saltelli, Reliability
    Engineering & System Safety 52 (1996) for the total.
    """
    if not codes:
        return {name: {} for name in times}
    whole = np.zeros(len(next(iter(codes.values()))), np.int64)
    strides, stride = {}, 1
    for name, values in codes.items():
        size = int(values.max(initial=0)) + 1
        if stride > np.iinfo(np.int64).max // size:
            _, whole = np.unique(whole, return_inverse=True)
            stride = int(whole.max()) + 1
            strides = dict.fromkeys(strides, None)
        whole = whole + values * stride
        strides[name] = stride
        stride *= size
    others = {name: _others(name, codes, whole, strides[name]) for name in codes}
    shares: dict[str, dict[str, Share]] = {}
    for model, seconds in times.items():
        ran = np.isfinite(seconds) & (seconds > 0)
        y = np.log(seconds[ran])
        variance = y.var() if len(y) else 0.0
        shares[model] = {}
        if variance <= 1e-18 or len(y) < FEWEST:
            continue
        for name, values in codes.items():
            own = 1.0 - within(values[ran], y)[0] / variance
            left, shared = within(others[name][ran], y)
            shares[model][name] = Share(own, left / variance if shared >= ENOUGH else float("nan"))
    return shares


def _others(name: str, codes: Mapping[str, np.ndarray], whole: np.ndarray, stride: int | None) -> np.ndarray:
    """Encode configurations by all parameters but one."""
    if stride is not None:
        return np.unique(whole - codes[name] * stride, return_inverse=True)[1]
    rest = np.stack([values for other, values in codes.items() if other != name], axis=1)
    return np.unique(rest, axis=0, return_inverse=True)[1].ravel()


def within(groups: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """The mean variance within groups, and the share of values in groups of several."""
    counts = np.bincount(groups)
    filled = np.maximum(counts, 1)
    means = np.bincount(groups, y) / filled
    left = y - means[groups]
    return float(np.mean(left * left)), float(np.mean(counts[groups] > 1))

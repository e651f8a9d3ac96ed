"""Rank configurations by predicted time, by the prior, or by both.

Both: log time minus `WEIGHT` times the log of the expected share among the best.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int

from dse.errors import check_names
from dse.explore.matrix.prior import shipped
from dse.hardware.gpus import GpuFile
from dse.models.matrix import constants as _constants
from dse.models.matrix.attention import Attention, AttentionCase
from dse.models.matrix.attention import possible as attention_possible
from dse.models.matrix.attention import seconds as attention_seconds
from dse.models.matrix.case import BACK_TO_BACK, BETWEEN_EVENTS, Case, Timing
from dse.models.matrix.configuration import Configuration, as_dict, space
from dse.models.matrix.constants import Constants
from dse.models.matrix.machine import Machine, possible
from dse.models.matrix.problem import OPERANDS, Product
from dse.models.matrix.time import roofline, seconds

BY = ("physics", "prior", "both")
WEIGHT, AMD_WEIGHT = 0.02, 0.12  # AMD's prior is from one GPU and its tuners
# Log time added to each further configuration that differs in these parameters alone: groups, and stages.
ALIKE = (((3,), 0.02), ((3, 5), 0.01))
PRODUCTS, CONFIGURATIONS = 8, 512  # are padded to multiples of these, so that few shapes are compiled

_seconds, _attention_seconds, _roofline = map(jax.jit, (seconds, attention_seconds, roofline))


def predict(
    files: Sequence[GpuFile],
    products: Sequence[Product],
    configurations: Int[np.ndarray, "configurations parameters"],
    constants: Constants | None = None,
    timing: Timing = BACK_TO_BACK,
) -> Float[np.ndarray, "gpus products configurations"]:
    """Predict times in seconds; infinite if shared memory does not suffice. Fitted constants by default.

    `timing`: launches back to back, or one between two events after a flush of L2.

    **Raises:** DseError for a GPU without tensor cores.
    """
    machine = jax.tree.map(lambda field: field[:, None, None], Machine.of(files))
    launched = [*products, *list(products[-1:]) * (-len(products) % PRODUCTS)]
    tiles = np.pad(configurations, ((0, -len(configurations) % CONFIGURATIONS), (0, 0)), mode="edge")
    inner = (Case.of(launched, tiles[:, 0]), Configuration.of(tiles))
    case, tile = jax.tree.map(lambda field: field[None], inner)
    constants = constants or _constants.of_gpus([bool(file.gpu.gfx) for file in files])
    times = np.asarray(_seconds(machine, case, tile, constants, timing))
    fits = np.array([possible(file, products, configurations) for file in files])
    return np.where(fits, times[:, : len(products), : len(configurations)], np.inf)


def attend(
    file: GpuFile, attention: Attention, configurations: Int[np.ndarray, "configurations parameters"]
) -> Float[np.ndarray, " configurations"]:
    """Predict times of attention in seconds, between two events; infinite as `predict`.

    Tiles are of queries and keys. **Raises:** as `predict`.
    """
    machine = jax.tree.map(lambda field: field[:, None], Machine.of([file]))
    case, tile = AttentionCase.of([attention]), Configuration.of(configurations)
    constants = _constants.fitted(bool(file.gpu.gfx))
    times = _attention_seconds(machine, case, tile, constants, BETWEEN_EVENTS)[0]
    size = OPERANDS[attention.operands].activation_bytes
    fits = attention_possible(file.gpu, attention.head_dim, size, configurations)
    return np.where(fits, np.asarray(times), np.inf)


def bound(
    files: Sequence[GpuFile], products: Sequence[Product], timing: Timing = BACK_TO_BACK
) -> Float[np.ndarray, "gpus products"]:
    """Return the roofline of products in s: a lower bound for every configuration."""
    machine = jax.tree.map(lambda field: field[:, None, None], Machine.of(files))
    case = jax.tree.map(lambda field: field[None], Case.of(products, np.ones(1)))
    return np.asarray(_roofline(machine, case, timing))[:, :, 0]


def scores(
    file: GpuFile,
    products: Sequence[Product],
    configurations: Int[np.ndarray, "configurations parameters"],
    by: str = "both",
) -> Float[np.ndarray, "products configurations"]:
    """Return scores of configurations, lower is better: log time minus the weighted log of the prior."""
    check_names("by", BY, by)
    time = np.log(predict([file], products, configurations)[0])
    if by == "physics":
        return time
    amd = bool(file.gpu.gfx)
    share = (AMD_WEIGHT if amd else WEIGHT) * shipped(amd).log_share(file, products, configurations)
    return np.where(np.isfinite(time), (time if by == "both" else 0.0) - share, np.inf)


def order(
    score: Float[np.ndarray, "products configurations"],
    configurations: Int[np.ndarray, "configurations parameters"],
    alike: Sequence[tuple[tuple[int, ...], float]] = ALIKE,
) -> Int[np.ndarray, "products configurations"]:
    """Return the indices of configurations in the order to try them, best first.

    Groups and stages of a tile share a model's errors: after the first, the others are ranked slightly later.
    """
    for parameters, later in alike:
        score = score + later * _before(score, configurations, parameters)
    return np.argsort(score, axis=1, kind="stable")


def _before(score: np.ndarray, configurations: np.ndarray, parameters: tuple[int, ...]) -> np.ndarray:
    """Return how many better configurations differ from each in these parameters alone."""
    _, kind = np.unique(np.delete(configurations, parameters, axis=1), axis=0, return_inverse=True)
    columns = (np.broadcast_to(values, score.shape) for values in (configurations[:, 3], score, kind))
    first = np.lexsort(tuple(columns))
    start = np.r_[True, np.diff(np.sort(kind)) > 0]
    nth = np.arange(len(kind)) - np.maximum.accumulate(np.where(start, np.arange(len(kind)), 0))
    before = np.empty(score.shape)
    np.put_along_axis(before, first, np.broadcast_to(nth, score.shape), axis=1)
    return before


def first(
    file: GpuFile,
    products: Sequence[Product],
    count: int,
    configurations: Int[np.ndarray, "configurations parameters"] | None = None,
) -> list[list[dict[str, Any]]]:
    """Return the first `count` configurations to try for each product, named, with `time_s`.

    The default space is "wide" of `dse.models.matrix.configuration`; there are fewer if fewer fit.
    """
    table = space("wide", amd=bool(file.gpu.gfx)) if configurations is None else configurations
    score = scores(file, products, table)
    seconds = predict([file], products, table)[0]
    return [
        [
            as_dict(table[place]) | {"time_s": float(s[place])}
            for place in row[:count]
            if np.isfinite(s[place])
        ]
        for row, s in zip(order(score, table), seconds, strict=True)
    ]

"""A fit finds the constants that made the sets, as far as they rank the same, and leaves the others."""

import jax.numpy as jnp
import numpy as np
import pytest
from matrix_fits.fit import fit
from matrix_fits.records import NearBest, Recorded

from dse.explore.matrix.devices import gpu_file
from dse.explore.matrix.rank import predict
from dse.models.matrix.configuration import space
from dse.models.matrix.constants import ABOUT, Constants, default
from dse.models.matrix.problem import Product, experts_layer

WIDE = space("wide")
TRIED = frozenset(map(tuple, WIDE[:, :4].tolist()))


def made(constants: Constants) -> list[NearBest]:
    """Near-best sets as these constants have them."""
    table = WIDE[np.isin(WIDE[:, 3], (1, 16))]
    products = [experts_layer(m, 16, 2, 4096, 2048, routing="even")[0] for m in (1, 16, 256)]
    products += [Product(m, 4096, 4096) for m in (64, 4096)]
    [times] = predict([gpu_file("A100")], products, table, constants)
    sets = [np.flatnonzero(row <= 1.01 * row.min()) for row in times]
    return [
        NearBest("A100", product, tuple(map(tuple, table[item].tolist())), tuple(row[item].tolist()), TRIED)
        for product, row, item in zip(products, times, sets, strict=True)
    ]


def planted(**moved: float) -> Constants:
    return Constants.at(jnp.asarray([moved.get(name, 0.0) for name in ABOUT], jnp.float32))


@pytest.mark.slow
def test_fit_finds_times_and_sets():
    cases = made(planted(dram=-2.0, mma=-1.5, launch=1.5))
    actual = Constants.at(jnp.asarray(fit(cases, steps=12, repeated=1.0), jnp.float32))

    def errors(constants: Constants) -> np.ndarray:
        [times] = predict([gpu_file("A100")], [case.product for case in cases], WIDE, constants)
        return np.abs(times.min(1) / np.array([case.best for case in cases]) - 1)

    assert errors(actual).max() < 0.06 < errors(default()).max()  # five cases do not outweigh the prior


@pytest.mark.slow
def test_cases_that_repeat_each_other_tell_less():
    cases = made(planted(dram=-2.0, launch=1.5))
    alone, alike = (fit(cases, steps=8, repeated=number) for number in (1.0, 1000.0))
    assert np.abs(alike).max() < 0.1 < np.abs(alone).max()


@pytest.mark.slow
def test_what_tuning_runs_chose_is_learnt():
    table, file = space("moe"), gpu_file("H200")
    layers = [experts_layer(m, e, 2, 4096, 1024) for m in (1, 512) for e in (8, 64)]

    def log_s(constants: Constants) -> np.ndarray:
        launches = zip(*layers, strict=True)
        return np.log(sum(predict([file], launch, table, constants)[0] for launch in launches))

    selected = log_s(planted(wgmma=-2.5, barrier=3.0, copy_slots=2.0)).argmin(1)
    records = [
        Recorded("H200", "moe", True, layer, tuple(table[place].tolist()), ())
        for layer, place in zip(layers, selected, strict=True)
    ]

    def depth(constants: Constants) -> float:
        times = log_s(constants)
        own = np.take_along_axis(times, selected[:, None], axis=1)
        return float((times < own).mean())

    fitted = fit([], records, steps=5, repeated=0.1)
    assert depth(Constants.at(jnp.asarray(fitted, jnp.float32))) < 0.5 * depth(default())

"""How the work of the loop over all configurations is cut; what it finds is tested with the grid."""

import pytest

from dse.evaluate.layout import CUTS
from dse.evaluate.minima import sizes


@pytest.mark.parametrize("rows", [1, 7, 512, 10_000, 3_000_000])
@pytest.mark.parametrize("length", [16, 160, 1024, 16_384])
def test_sizes_keep_to_their_limits(rows, length):
    cut = sizes((3, 4), rows, length)
    assert cut.blocks * cut.rows >= rows > (cut.blocks - 1) * cut.rows
    assert cut.pieces * cut.rows * length <= max(CUTS.loop, length)
    assert cut.loops >= 2
    assert cut.loops == 2 or cut.step * cut.rows <= CUTS.kernels
    assert cut.table % cut.step == 0
    assert cut.table == cut.step or cut.table * length <= CUTS.table
    assert cut.table == cut.step or cut.table * rows <= CUTS.results
    assert cut.steps(cut.step + 1) == 2 * cut.blocks

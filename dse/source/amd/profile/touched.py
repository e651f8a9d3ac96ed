"""Count what each wave's access to memory touches."""

import numpy as np

from dse.core.numba_cache import compiled
from dse.hardware.coalescing import SECTOR

_QUAD = 4  # lanes whose addresses are processed together, if these are equal or adjacent


@compiled
def count_touches(
    address: np.ndarray, mask: np.ndarray, size: int, per_line: int, kept: np.ndarray, counts: np.ndarray
) -> None:
    """Fill `counts` with lines, sectors, runs of neighbours in groups of four lanes, and active lanes.

    **Shapes:** address and mask [waves, lanes], counts [4, waves]; `kept` has room for a wave's sectors.
    """
    for wave in range(address.shape[0]):
        lines, sectors, runs, lanes = 0, 0, 0, 0
        for lane in range(address.shape[1]):
            if not mask[wave, lane]:
                continue
            lanes += 1
            start, before = address[wave, lane], address[wave, lane - 1]
            runs += lane % _QUAD == 0 or not mask[wave, lane - 1] or abs(start - before) > size
            for word in range(max(size // 4, 1)):
                sector = (start + 4 * word) // SECTOR
                at = sectors  # mostly they come in order
                while at > 0 and kept[at - 1] > sector:
                    at -= 1
                if at > 0 and kept[at - 1] == sector:
                    continue
                for later in range(sectors, at, -1):
                    kept[later] = kept[later - 1]
                kept[at] = sector
                sectors += 1
        for at in range(sectors):
            lines += at == 0 or kept[at] // per_line != kept[at - 1] // per_line
        counts[0, wave], counts[1, wave], counts[2, wave], counts[3, wave] = lines, sectors, runs, lanes

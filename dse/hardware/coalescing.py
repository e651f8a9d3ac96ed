"""Sectors and lines of memory accessed by the lanes of a warp.

Since compute capability 3.0, memory moves in sectors of 32 bytes, four to a line of 128, shared by the lanes
that access them. Elements are aligned to their size, so each is in one sector.

Source: NVIDIA, CUDA C Programming Guide 5.0, Secs. F.4.2, F.5.2.
"""

import numpy as np

from dse.hardware.lanes import sorted_places

SECTOR = 32  # bytes
LINE = 128
L2_PORT = 64.0  # most bytes per cycle from the L2 to an SM


def sectors_and_lines(address: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Count the distinct 32-byte sectors and 128-byte lines in which accesses of a warp begin.

    **Shapes:** address (in bytes) and mask [..., lanes], results [...].
    """
    sector, first_of_sector = sorted_places(address >> 5, mask)  # shifts are faster
    line = sector >> 2
    first_of_line = first_of_sector.copy()
    first_of_line[..., 1:] &= line[..., 1:] != line[..., :-1]
    return np.count_nonzero(first_of_sector, axis=-1), np.count_nonzero(first_of_line, axis=-1)


def passes_of_lines(lines: np.ndarray) -> np.ndarray:
    """Return the passes through the L1 in which the lines of an access are looked up, four at a time.

    Neighbours need no second one. More lines are spread over the four ways by a hash, so that the fullest has
    0.75 more than its share.

    **Shapes:** any. **Source:** RRZE-HPC/gpu-benches, gpu-strides on A100, A40 and H200.
    """
    return np.where(lines <= 2, np.minimum(lines, 1), lines / 4 + 0.75)

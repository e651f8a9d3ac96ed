"""Edges of dataflow order: which instructions wait for an instruction's result, a few to a row.

A step of the loop follows one row in each lane, so that few instructions with many successors do not make the
steps of all others longer: theirs take several steps.
"""

import numpy as np

MOST_IN_ROW = 8
STEP = 8  # what a step costs besides, in units of what one more edge in a row costs; measured


def edges_in_row(out_degree: np.ndarray) -> int:
    """Return how many edges to a row make entering every instruction once cheapest."""
    widths = np.arange(1, MOST_IN_ROW + 1)
    rows = np.maximum(-(-out_degree[:, None] // widths), 1).mean(0)
    return int(widths[np.argmin(rows * (STEP + widths))])


def edge_rows(source: np.ndarray, instructions: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Lay out edges: where each one goes, [edges], and each row's next one or 0, [rows].

    Row j is the first one of instruction j; rows beyond the instructions continue others. `source` is the
    instruction that each edge leaves.
    """
    out_degree = np.bincount(source, minlength=instructions)
    order = np.argsort(source, kind="stable")
    nth = np.empty(len(source), int)  # among the edges of its source
    nth[order] = np.arange(len(source)) - np.repeat(np.cumsum(out_degree) - out_degree, out_degree)
    further = np.maximum(-(-out_degree // width) - 1, 0)  # rows beyond the first
    first = instructions + np.cumsum(further) - further
    row = np.where(nth < width, source, first[source] + nth // width - 1)
    following = np.zeros(instructions + int(further.sum()), np.int32)
    chained = nth // width > 0
    before = np.where(nth < 2 * width, source, row - 1)
    following[before[chained]] = row[chained]
    return row * width + nth % width, following

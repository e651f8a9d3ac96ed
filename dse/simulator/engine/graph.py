"""Successors and barriers of instructions, for dataflow order."""

from typing import Any, NamedTuple

import numpy as np

from dse.core.numba_cache import compiled
from dse.simulator.case.program import MOST_SUBSYSTEMS
from dse.simulator.engine.columns import CaseColumns, offsets, within

BLOCK = 16  # instructions of a warp that share minima


class Graph(NamedTuple):
    """The dependences of the instructions of `Inputs`, in their order; numbers count within a program."""

    subsystem: np.ndarray  # uint32 [n]
    members: np.ndarray  # uint32 [blocks · MOST_SUBSYSTEMS]: bits of a block's instructions in a subsystem
    first_block: np.ndarray  # uint32 [n + 1]: first block of the program that begins there
    succ_first: np.ndarray  # uint32 [n + 1]
    succ: np.ndarray  # uint32: the instructions that wait for an instruction
    needs: np.ndarray  # uint32 [n]: number of dependences
    pred_first: np.ndarray  # uint32 [n + 1]
    pred: np.ndarray  # uint32: instructions that an instruction waits for, ascending
    stop: np.ndarray  # uint32 [n + 1]: the next barrier, possibly the instruction itself, or the length
    length: np.ndarray  # uint32 [n + 1]: of the program that begins there
    stride: np.ndarray  # uint32 [m]: instructions of a warp's row, in whole blocks
    blocks: np.ndarray  # uint32 [m]: these blocks, rounded up to whole vectors


def make_graph(columns: CaseColumns, numbers: np.ndarray) -> Graph:
    """Make the graph of the cases with these numbers."""
    programs = within(columns.program_first, numbers)
    first = offsets(columns.length[programs])
    rows = within(columns.first, programs)
    counts = columns.pred_counts[rows]
    pred = columns.pred[within(columns.pred_first, rows)]
    blocks = int((_rounded_up(columns.length[programs]) // BLOCK).sum())
    longest = np.maximum.reduceat(columns.length, columns.program_first[:-1])[numbers]
    graph = Graph(
        subsystem=columns.subsystem[rows].astype(np.uint32),
        members=np.zeros(blocks * MOST_SUBSYSTEMS, np.uint32),
        first_block=np.zeros(len(rows) + 1, np.uint32),
        succ_first=np.zeros(len(rows) + 1, np.uint32),
        succ=np.zeros(len(pred), np.uint32),
        needs=counts.astype(np.uint32),
        pred_first=offsets(counts).astype(np.uint32),
        pred=pred.astype(np.uint32),
        stop=np.zeros(len(rows) + 1, np.uint32),
        length=np.zeros(len(rows) + 1, np.uint32),
        stride=_rounded_up(longest).astype(np.uint32),
        blocks=_rounded_up(-(-longest // BLOCK)).astype(np.uint32),
    )
    _fill(first, columns.barrier[rows], graph, np.zeros(len(rows), np.int64))
    return graph


def _rounded_up(counts: np.ndarray) -> np.ndarray:
    return -(-counts // BLOCK) * BLOCK


@compiled
def _fill(first: Any, barrier: Any, graph: Any, next_edge: Any) -> None:
    """Reverse the edges, and find the barriers."""
    block = 0
    for program in range(len(first) - 1):
        begin, end = first[program], first[program + 1]
        graph.first_block[begin] = block
        for i in range(begin, end):
            member = (block + (i - begin) // BLOCK) * MOST_SUBSYSTEMS + graph.subsystem[i]
            graph.members[member] |= 1 << (i - begin) % BLOCK
        block += -((begin - end) // BLOCK)
        graph.length[begin] = end - begin
        stop = end - begin
        for i in range(end - 1, begin - 1, -1):
            if barrier[i]:
                stop = i - begin
            graph.stop[i] = stop
        for edge in range(graph.pred_first[begin], graph.pred_first[end]):
            graph.succ_first[begin + graph.pred[edge] + 1] += 1
    for i in range(first[-1]):
        graph.succ_first[i + 1] += graph.succ_first[i]
        next_edge[i] = graph.succ_first[i]
    for program in range(len(first) - 1):
        begin, end = first[program], first[program + 1]
        for i in range(begin, end):
            for edge in range(graph.pred_first[i], graph.pred_first[i + 1]):
                source = begin + graph.pred[edge]
                graph.succ[next_edge[source]] = i - begin
                next_edge[source] += 1

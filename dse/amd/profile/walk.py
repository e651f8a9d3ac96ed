"""Times one wave alone: it issues in order, and waits where `s_waitcnt` says so.

Loads, stores and LDS accesses are under way until a counter (vmcnt, lgkmcnt, vscnt; on gfx12 one for each
kind) has come down to what a wait names; accesses of one counter come back in order, except scalar loads,
for all of which the compiler waits at once. Results of vector instructions are there some cycles later, and
the hardware holds back what needs them.

Source: the CDNA2, RDNA2 and RDNA3 instruction set guides, sections on data dependency resolution.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dse.amd.text import Instruction
from dse.cuda.profile.single_warp import SOURCES, Walk

_PLACE = {name: number for number, name in enumerate(SOURCES)}


class Cost(NamedTuple):
    """What an instruction costs a wave that is alone."""

    cycles: float  # until the next instruction can be issued
    latency: float  # until its result is there, of the kind that `source` says
    source: str  # of SOURCES
    counter: str = ""  # that counts it while it is under way: "vm", "vs", "lgkm"; "": registers are watched


class _UnderWay(NamedTuple):
    ready: float
    path: np.ndarray  # results waited for until then, by SOURCES
    load: bool


class Walker:
    """Walks one wave through instructions; `at_barrier` ends a phase."""

    def __init__(self) -> None:
        self.time = 0.0
        self.waited = np.zeros(len(SOURCES))
        self.counters: dict[str, deque[_UnderWay]] = {"vm": deque(), "vs": deque(), "lgkm": deque()}
        self.ready: dict[str, tuple[float, np.ndarray, int]] = {}  # of a register: when, path, depth
        self.depth = 0
        self.insts = 0.0
        self.loads = self.waits = 0.0
        self.latency = np.zeros(len(SOURCES))

    def issue(self, inst: Instruction, cost: Cost) -> None:
        """Issue an instruction that is no wait."""
        reads, writes = registers(inst.opcode, inst.operands)
        start, path, deep = self.time, self.waited, 0
        for register in reads:
            known = self.ready.get(register)
            if known is not None:
                if known[0] > start:
                    start, path = known[0], known[1]
                deep = max(deep, known[2])
        self.waited = path
        self.insts += 1
        source = _PLACE[cost.source]
        self.latency[source] = cost.latency
        after = path.copy()
        after[source] += 1
        if cost.counter:
            under_way = self.counters[cost.counter]
            arrives = max(start + cost.latency, under_way[-1].ready if under_way else 0.0)
            late = under_way[-1].path if under_way and under_way[-1].ready > start + cost.latency else after
            load = cost.counter == "vm" and bool(writes)
            under_way.append(_UnderWay(arrives, late, load))
            self.loads += load
            for register in writes:
                self.ready[register] = (start, path, deep + 1)
        else:
            for register in writes:
                self.ready[register] = (start + cost.latency, after, deep + 1)
        self.depth = max(self.depth, deep + 1 if writes else 0)
        self.time = start + cost.cycles

    def wait(self, limits: Mapping[str, int]) -> None:
        """Wait until no more than so many accesses of each counter are under way."""
        waited_for_load = False
        for counter, most in limits.items():
            under_way = self.counters[counter]
            while len(under_way) > most:
                done = under_way.popleft()
                if done.ready > self.time:
                    self.time, self.waited = done.ready, done.path
                waited_for_load |= done.load
        self.waits += waited_for_load

    def walked(self) -> Walk:
        """Return the walk since the start."""
        slots = self.time - float(self.waited @ self.latency)
        return Walk(1.0, self.time, self.insts, self.loads, self.waits, float(self.depth), self.waited, slots)


_WRITES_NOTHING = ("global_store", "flat_store", "buffer_store", "scratch_store", "ds_write", "ds_store", "s_cbranch")
_PAIRS = {"_co_": 1}


@lru_cache(maxsize=65536)
def registers(opcode: str, operands: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the vector registers that an instruction reads and writes."""
    if not operands:
        return (), ()
    stores = opcode.startswith(_WRITES_NOTHING)
    writes = () if stores else _vector(operands[0])
    accumulates = opcode.startswith(("v_fmac", "v_mac", "v_pk_fmac", "v_dot", "v_writelane"))
    reads = [register for operand in operands[0 if stores or accumulates else 1 :] for register in _vector(operand)]
    return tuple(reads), writes


@lru_cache(maxsize=65536)
def _vector(operand: str) -> tuple[str, ...]:
    operand = operand.strip("-|").removeprefix("abs(").removeprefix("neg(").rstrip(")|")
    kind = operand[:1]
    if kind not in ("v", "a") or operand.startswith(("vcc", "abs")):
        return ()
    if operand[1:].isdigit():
        return (operand,)
    if operand[1:2] == "[" and ":" in operand:
        first, last = operand[2:].rstrip("]").split(":")
        return tuple(f"{kind}{number}" for number in range(int(first), int(last) + 1))
    return ()

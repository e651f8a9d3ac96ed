"""Read a handwritten instruction dependence graph: a program of a warp, and the core that runs it.

```toml
name = "example"

[core]                        # optional: warps, slots, groups, issue_limit, order, scheduler
warps = 4

[subsystems]                  # λ and Λ in cycles; cap: most instructions in flight
computation = { lambda = 1, Lambda = 4 }
memory = { lambda = 2, Lambda = 6 }

[[instruction]]
name = "M2"
subsystem = "memory"
needs = ["C0", "C1"]          # by name; a later one in a loop is that of the iteration before
# lambda, Lambda, same_warp, kind = "barrier"

[[loop]]
first = "M2"
last = "C3"
trips = 10
```

Different warps have a `[[program]]` each, with its own instructions and loops (`[[program.instruction]]`);
`core.assignment` lists the programs of the warps.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from dse.core.files import read_toml
from dse.core.validate import checked, in_toml
from dse.errors import DseError, check_names
from dse.simulator.case.program import Case, Loop, Program

Cycles = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class NamedCase:
    """A case with the names that its file uses."""

    name: str
    case: Case
    subsystems: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]  # for each program, of its instructions


def load(path: Path) -> NamedCase:
    """Read and check a graph file.

    **Raises:** DseError, one line with file, field, what was found and allowed.
    """
    file = checked(_GraphFile, read_toml(path), f"{path}", in_toml)
    for field in ("instruction", "loop"):
        if file.program and getattr(file, field):
            raise DseError(f"{path}: {field}: found beside [[program]], expected inside it")
    if not (file.program or file.instruction):
        raise DseError(f"{path}: instruction: found nothing, expected at least one")
    parts = file.program or [_ProgramTable(instruction=file.instruction, loop=file.loop)]
    core = file.core.model_dump()
    core["assignment"] = tuple(core["assignment"] or range(len(parts)))
    try:
        programs = tuple(_program(part, file.subsystems) for part in parts)
        case = Case(programs, caps=tuple(s.cap for s in file.subsystems.values()), **core)
    except DseError as error:
        raise DseError(f"{path}: {error}") from None
    labels = tuple(tuple(i.name for i in part.instruction) for part in parts)
    return NamedCase(file.name, case, tuple(file.subsystems), labels)


class _GraphTable(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)  # no "3" for 3


class _SubsystemTable(_GraphTable):
    throughput_cycles: Cycles = Field(alias="lambda")
    latency_cycles: Cycles = Field(alias="Lambda")
    cap: float = math.inf


class _InstructionTable(_GraphTable):
    name: str
    subsystem: str
    needs: list[str] = []
    throughput_cycles: Cycles | None = Field(None, alias="lambda")
    latency_cycles: Cycles | None = Field(None, alias="Lambda")
    same_warp: Cycles = 0.0
    kind: Literal["compute", "memory", "barrier"] = "compute"


class _LoopTable(_GraphTable):
    first: str
    last: str
    trips: int = Field(ge=1)


class _ProgramTable(_GraphTable):
    instruction: list[_InstructionTable] = Field(min_length=1)
    loop: list[_LoopTable] = []


class _Core(_GraphTable):
    warps: int = 1
    slots: int = 1
    groups: int = 1
    issue_limit: float = math.inf
    order: str = "program"
    scheduler: str = "rr"
    assignment: list[int] = []


class _GraphFile(_GraphTable):
    name: str
    summary: str = ""
    core: _Core = _Core()
    subsystems: dict[str, _SubsystemTable] = Field(min_length=1)
    instruction: list[_InstructionTable] = []
    loop: list[_LoopTable] = []
    program: list[_ProgramTable] = []


def _program(part: _ProgramTable, subsystems: Mapping[str, _SubsystemTable]) -> Program:
    names = [instruction.name for instruction in part.instruction]
    numbers = {name: n for n, name in enumerate(names)}
    if len(numbers) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DseError(f"instruction: name: found {twice!r} twice, expected each once")
    loops = tuple(_loop(table, numbers) for table in part.loop)
    preds = tuple(_preds(instruction, numbers, loops) for instruction in part.instruction)
    number_of_subsystem = {name: n for n, name in enumerate(subsystems)}
    entered = [
        _number(instruction.subsystem, number_of_subsystem, f"instruction {instruction.name}: subsystem")
        for instruction in part.instruction
    ]

    def cycles(name: str) -> np.ndarray:
        """Return the stated cycles of each instruction, by default its subsystem's."""
        stated = [getattr(instruction, name) for instruction in part.instruction]
        usual = [getattr(subsystems[instruction.subsystem], name) for instruction in part.instruction]
        return np.array([b if a is None else a for a, b in zip(stated, usual, strict=True)])

    return Program(
        subsystem=np.array(entered),
        throughput_cycles=cycles("throughput_cycles"),
        latency_cycles=cycles("latency_cycles"),
        preds=preds,
        kind="".join(instruction.kind[0] for instruction in part.instruction),
        same_warp=np.array([instruction.same_warp for instruction in part.instruction]),
        loops=loops,
    )


def _number(name: str, numbers: Mapping[str, int], field: str) -> int:
    check_names(field, numbers, name)
    return numbers[name]


def _loop(table: _LoopTable, numbers: Mapping[str, int]) -> Loop:
    loop = Loop(
        first=_number(table.first, numbers, "loop: first"),
        stop=_number(table.last, numbers, "loop: last") + 1,
        trips=table.trips,
    )
    if loop.stop <= loop.first:
        raise DseError(f"loop: last: found {table.last!r} before {table.first!r}, expected it or a later one")
    return loop


def _preds(table: _InstructionTable, numbers: Mapping[str, int], loops: tuple[Loop, ...]) -> tuple[int, ...]:
    """Return the numbers of an instruction's needs. **Raises:** DseError for a later one."""
    i = numbers[table.name]
    preds = tuple(_number(name, numbers, f"instruction {table.name}: needs") for name in table.needs)
    for name, j in zip(table.needs, preds, strict=True):
        if j >= i and not any(i in loop and j in loop for loop in loops):
            expected = "an earlier one, or one of the same loop"
            raise DseError(f"instruction {table.name}: needs: found {name!r}, expected {expected}")
    return preds

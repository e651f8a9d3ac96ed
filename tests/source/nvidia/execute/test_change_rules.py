"""What a rule says of the next trips is what the instruction does in them."""

import re

import numpy as np
import pytest
from support.sass_code import program_of

from dse.source.machine.launch import LaunchArguments
from dse.source.machine.trips import FOR_EVER, Irregular
from dse.source.nvidia.execute.change_rules import RULES
from dse.source.nvidia.execute.interpret import bind_program
from dse.source.nvidia.execute.register_changes import RegisterChanges
from dse.source.nvidia.machine.state import Machine
from dse.source.nvidia.sass.operands import P

SOURCES = (5, 6, 7, 8, 9)  # registers that may change
INSTRUCTIONS = """
    MOV R4, R5; MOV.64 R4, R8; R2UR P0, UR4, R5; SEL R4, R5, R6, P1; SEL.64 R4, R6, R8, P1
    IADD3 R4, R5, R6, R7; IADD3 R4, -R5, R6, RZ; IADD3 R4, P0, R5, R6, RZ; IADD3 R4, P0, P2, R5, R6, R7
    IADD3.X R4, P0, R5, R6, RZ, P1, !PT; IADD.64 R4, R6, R8
    IMAD R4, R5, R6, R7; IMAD R4, R5, 0x7, R6; IMAD.WIDE R4, R6, 0x4, R8; IMAD.WIDE.U32 R4, R6, R7, R8
    IMAD.HI.U32 R4, R5, 0x40, RZ; IMAD.HI R4, R5, R6, R8
    LEA R4, R5, R6, 0x3; LEA R4, P0, R5, R6, 0x2
    LEA.HI R4, P0, R5, R6, RZ, 0x6; LEA.HI.X R4, R5, R6, RZ, 0x3, P1; LEA.HI.X.SX32 R4, R5, R6, 0x2, P1
    SHF.L.U32 R4, R5, 0x3, RZ; SHF.R.S32.HI R4, RZ, 0x3, R5; SHF.R.U32.HI R4, RZ, 0x3, R5
    SHF.R.U64 R4, R6, 0x3, R7; SHF.R.S64 R4, R6, 0x1, R7
    IMNMX R4, R5, R6, PT; IMNMX.U32 R4, R5, R6, !PT
    VIADDMNMX R4, R5, R6, R7, PT; VIADDMNMX.U32 R4, R5, R6, R7, !PT
    ISETP.LT.AND P0, PT, R5, R6, PT; ISETP.GE.AND P0, PT, R5, 0x100, PT; ISETP.GT.U32.AND P0, PT, R5, R6, PT
    ISETP.EQ.AND P0, PT, R5, R6, PT; ISETP.NE.AND P0, PT, R5, R6, PT
    ISETP.LE.U64.AND P0, PT, R6, R8, PT; ISETP.GT.S64.AND P0, PT, R6, R8, PT
"""


def machine_for(instruction: str) -> Machine:
    """One warp; an address and a branch depend on what the instruction writes."""
    code = program_of(instruction, "LDG.E R20, [R4.64]", "@P0 BRA 0x0", "EXIT")
    return Machine(bind_program(code), LaunchArguments((1, 1, 1), (32, 1, 1)), [(0, 0, 0)])


@pytest.mark.parametrize("instruction", re.findall(r"\w[^;\n]+", INSTRUCTIONS))
def test_results_change_as_the_rule_says(instruction):
    machine = machine_for(instruction)
    lanes = machine.sets.of(machine.live_mask)
    step, execute = machine.bound.actions[0][0]
    machine.r[P + 1] = np.arange(32)[None, :] % 2 == 1
    passed = limited = 0

    def results(values: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
        for slot, value in values.items():
            machine.r[slot] = value.astype(np.uint64).astype(np.uint32)
        execute(machine, lanes)
        return {slot: np.broadcast_to(machine.r[slot], (1, 32)).astype(np.int64) for slot in step.writes}

    for seed in range(40):
        rng = np.random.default_rng(seed)
        changing = rng.choice(SOURCES, rng.integers(1, 3), replace=False).tolist()
        bits = rng.choice([6, 12, 31, 32])
        values = {slot: rng.integers(0, 2**bits, (1, rng.choice([1, 32]))) for slot in SOURCES}
        changes = {slot: rng.integers(-9, 10, (1, 1)) * 8 ** rng.integers(0, 3) for slot in changing}
        before = results(values)
        changes = {slot: change for slot, change in changes.items() if change.any()}
        registers = RegisterChanges(machine, dict(changes))
        try:
            RULES[step.opcode](registers, step)
        except Irregular:
            continue
        passed += 1
        limited += registers.trips < FOR_EVER
        for trips in {0, 1, 2, registers.trips // 3, registers.trips}:
            if trips > registers.trips:
                continue
            moved = {slot: values[slot] + trips * changes.get(slot, 0) for slot in SOURCES}
            for slot, result in results(moved).items():
                change = registers.by_slot.get(slot, 0) if slot < P else 0
                np.testing.assert_array_equal(result, before[slot] + trips * change & (2**32 - 1), str(trips))

    assert passed
    assert limited or step.opcode in ("MOV", "IADD3", "IMAD", "LEA", "SHF", "SEL", "R2UR")

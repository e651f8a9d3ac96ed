"""What is said of an instruction's results in the next trips is what it computes in them."""

import re
from typing import Any

import numpy as np
import pytest

from dse.source.amd.execute.changes import ChangeRules
from dse.source.amd.execute.code import code_of
from dse.source.amd.execute.contents import MemoryMachine
from dse.source.amd.execute.even import NON_LINEAR
from dse.source.amd.execute.slots import CONSTANTS, SCC, VCC, V
from dse.source.machine.launch import LaunchArguments
from dse.source.machine.trips import FOR_EVER, Irregular

SOURCES = (5, 6, 7, 8, 9)  # registers of either kind that may change
LAUNCH = LaunchArguments((1, 1, 1), (64, 1, 1), [None, None])
# Those of the first group give what changes evenly in all trips, modulo 2**32.
ENDLESS, LIMITED = (
    re.findall(r"\w[^;\n]+", text)
    for text in (
        """
    v_mov_b32 v4, v5; v_not_b32 v4, v5; v_swap_b32 v5, v6; v_cndmask_b32 v4, v5, v6, vcc
    v_add_u32 v4, v5, v6; v_subrev_u32 v4, v5, v6; v_add3_u32 v4, v5, v6, v7; v_xad_u32 v4, v5, -1, v6
    v_lshl_add_u32 v4, v5, 3, v6; v_add_lshl_u32 v4, v5, v6, 2
    v_lshl_or_b32 v4, s10, 2, v5; v_lshl_or_b32 v4, v5, 6, 7; v_lshlrev_b32 v4, 4, v5
    v_mul_lo_u32 v4, v5, v6; v_and_b32 v4, -8, v5; v_and_b32 v4, 7, v5; v_or_b32 v4, 3, v5
    s_add_i32 s4, s5, s6; s_mul_i32 s4, s5, 12; s_lshl_b32 s4, s5, 3; s_cselect_b32 s4, s5, s6
    s_and_b32 s4, s5, -8; s_mov_b64 s[4:5], s[6:7]; v_readfirstlane_b32 s4, v5
        """,
        """
    v_mul_u32_u24 v4, v5, v6; v_mad_i32_i24 v4, v5, v6, v7; v_mad_u64_u32 v[4:5], s[14:15], v6, v7, v[8:9]
    v_lshlrev_b64 v[4:5], 2, v[6:7]; s_lshl_b64 s[4:5], s[6:7], 2
    v_add_co_u32 v4, vcc, v5, v6; v_addc_co_u32 v4, vcc, v5, v6, vcc
    v_sub_co_u32 v4, vcc, v5, v6; v_subbrev_co_u32 v4, vcc, v5, v6, vcc
    v_lshrrev_b32 v4, 2, v5; v_ashrrev_i32 v4, 3, v5; v_ashrrev_i32 v4, 31, v5
    v_min_i32 v4, v5, v6; v_max_u32 v4, v5, v6; s_min_i32 s4, s5, s6
    v_cmp_lt_i32 vcc, v5, v6; v_cmp_ge_u32 vcc, v5, v6; v_cmp_eq_u32 vcc, v5, v6
    v_cmp_gt_i64 vcc, v[6:7], v[8:9]; v_cmp_le_u64 vcc, v[6:7], v[8:9]
    s_add_u32 s4, s5, s6; s_addc_u32 s4, s5, s6; s_subb_u32 s4, s5, s6; s_lshr_b32 s4, s5, 2
    s_cmp_lt_i32 s5, s6; s_cmp_le_u32 s5, s6; s_cmp_lg_u32 s5, s6; s_cmp_gt_i32 s5, 64
        """,
    )
)


@pytest.mark.parametrize("instruction", [*ENDLESS, *LIMITED])
def test_results_change_as_is_said(written, instruction):
    code = code_of(written(instruction))
    machine: Any = MemoryMachine(code.listing, LAUNCH, [(0, 0, 0)])
    machine.execute_in(machine.alive)
    step, action = code.stretches[0].actions[0]
    machine.r += code.binder.constants[len(machine.r) - CONSTANTS :]
    first, lanes = (V, 64) if instruction.startswith("v") else (0, 1)
    some = np.arange(64).reshape(1, 1, 64) % 2 == 1
    passed = limited = 0

    def read(slot: int) -> Any:
        if slot == SCC:
            return machine.condition()
        return machine.mask(VCC) if slot in (VCC, VCC + 1) else machine.words(slot)

    def results(values: dict[int, np.ndarray], slots: list[int]) -> list[np.ndarray]:
        machine.r[VCC] = machine.r[VCC + 1] = some
        machine.r[SCC] = np.full((1, 1, 1), True)
        for slot, value in values.items():
            machine.r[slot] = value.astype(np.uint64).astype(np.uint32)
        if slots:
            action(machine)
        return [np.asarray(read(slot), np.int64) for slot in slots]

    for seed in range(40):
        rng = np.random.default_rng(seed)
        changing = rng.choice(SOURCES, rng.integers(1, 3), replace=False).tolist()
        bits = rng.choice([6, 12, 24, 31, 32])
        values = {first + slot: rng.integers(0, 2**bits, (1, 1, rng.choice([1, lanes]))) for slot in SOURCES}
        changes = {first + n: rng.integers(-9, 10, (1, 1, 1)) * 8 ** rng.integers(0, 3) for n in changing}
        changes = {slot: change for slot, change in changes.items() if change.any()}
        results(values, [])
        rules = ChangeRules(machine, code.binder, changes, machine.lanes())
        try:
            for _ in rules.follow(step, action):
                action(machine)
        except Irregular:
            continue
        said = {slot: rules.moving.get(slot) for slot in rules.written}
        said = {slot: change for slot, change in said.items() if change is not NON_LINEAR}
        passed += bool(said) and any(first + slot in changes for slot in SOURCES)
        limited += rules.trips < FOR_EVER
        before = results(values, [*said])
        for trips in {0, 1, 2, rules.trips // 3, rules.trips}:
            if trips > rules.trips:
                continue
            moved = {slot: value + trips * changes.get(slot, 0) for slot, value in values.items()}
            for result, was, change in zip(results(moved, [*said]), before, said.values(), strict=True):
                expected = was if change is None else was + trips * change & (2**32 - 1)
                np.testing.assert_array_equal(result - expected, 0, str(trips))

    assert passed
    assert bool(limited) == (instruction in LIMITED)

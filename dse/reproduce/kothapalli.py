"""Kothapalli et al., HiPC 2009: the numbers of its text. Its histogram is only a figure."""

import math

from dse.models.kothapalli import GLOBAL_ACCESS, INT_ADD, INT_MULTIPLY, coalesced_access, kernel_cycles
from dse.reproduce.papers import Row, text

TITLE = "Kothapalli et al. 2009"


def costs() -> list[Row]:
    """Compute costs of instructions (Sec. 3)."""
    printed = text("kothapalli")
    return [
        Row(
            "Sec. 3.2.1",
            "two additions and two multiplications, cycles",
            printed["worked_sum"],
            2 * INT_ADD + 2 * INT_MULTIPLY,
            "look-up",
        ),
        Row(
            "Sec. 3.2.2",
            "gain of coalescing, at most",
            printed["coalescing_gain"],
            float(GLOBAL_ACCESS / coalesced_access()),
            "model",
        ),
    ]


def matrix_multiplication() -> list[Row]:
    """Compute the matrix multiplication (Sec. 5.1) by MAX."""
    printed = text("kothapalli")
    case = printed["matrix_multiplication"]
    n = case["n"]
    of_thread = max(case["comp"], case["mem"]) * n / 16
    blocks = n**2 / (case["block"] * printed["sms"])
    cycles = float(kernel_cycles(of_thread, blocks, case["warps"]))
    milliseconds = cycles / printed["clock_hz"] * 1e3
    return [
        Row("Sec. 5.1", f"matrix multiplication, N = {n}, ms", case["milliseconds"], milliseconds, "model")
    ]


def list_ranking() -> list[Row]:
    """Compute the list ranking (Sec. 5.2): three uncoalesced accesses in each of 4 log N steps."""
    printed = text("kothapalli")
    case = printed["list_ranking"]
    steps = 4 * math.log2(case["n"])
    of_thread = steps * case["accesses"] * GLOBAL_ACCESS
    rows = []
    for what, rounded in (("", math.ceil), (", with a fraction of a block", float)):
        blocks = rounded(case["n"] / (case["block"] * math.log2(case["n"]) * printed["sms"]))
        milliseconds = float(kernel_cycles(of_thread, blocks, case["warps"])) / printed["clock_hz"] * 1e3
        rows.append(
            Row("Sec. 5.2", f"list ranking, N = 2^22{what}, ms", case["milliseconds"], milliseconds, "model")
        )
    return rows


TABLES = (costs, matrix_multiplication, list_ranking)

"""Lai & Seznec, INRIA RR-7804, 2011 (TEG)."""

from dse import kernels
from dse.reproduce.papers import Row, table, text
from dse.simulator import teg
from dse.simulator.case import trace_text
from dse.simulator.teg import GT200

KERNELS = {  # of its Tables 2 to 5, with the effects in force
    2: ("matmul_abt", teg.Effects()),
    3: ("matmul_abt", teg.Effects.without("conflicts")),
    4: ("hopping_aos", teg.Effects()),
    5: ("hopping_soa", teg.Effects()),
}
TITLE = "Lai & Seznec 2011 (TEG)"
PREDICTIONS = "Predicted cycles of Tables 2 to 5"


def table_1() -> list[Row]:
    """Look up the latencies of GT200 in the simulator."""
    names = {
        "execution_latency": "execution",
        "issue_multi_warp": "multi_warp",
        "issue_same_warp": "same_warp",
    }
    return [
        Row(
            "Table 1",
            f"{row['instruction']}: {name}",
            row[column],
            getattr(GT200.timings[row["instruction"]], name),
            "look-up",
        )
        for row in table("teg_table_1")
        for column, name in names.items()
    ]


def section_3() -> list[Row]:
    """Compute the numbers that the text derives from its measurements."""
    printed = text("teg")
    fadd = printed["fadd"]
    latency = (fadd["cycles"] - fadd["overhead"] - fadd["issue"]) / (fadd["instructions"] - 1)
    # Eight SPs, each with a multiply-add and a multiplication.
    flops = GT200.tpcs * GT200.sms * 8 * 3 * GT200.clock / 1e9
    return [
        Row(
            "Sec. 3.2.1",
            "execution latency of FADD from a sequence, cycles",
            printed["fadd_latency"],
            latency,
            "arithmetic",
        ),
        Row(
            "Sec. 3.2.4",
            "transactions in flight for a TPC",
            printed["transactions_in_flight"],
            GT200.transactions_in_flight(8),
            "model",
        ),
        Row("Sec. 2", "peak, Gflop/s", printed["peak_gflops"], flops, "look-up"),
        Row(
            "Sec. 3.3",
            "bandwidth wasted by uncoalesced words, %",
            printed["wasted_percent"],
            100 * (1 - 4 / 32),
            "arithmetic",
        ),
    ]


def tables_2_to_5() -> list[Row]:
    """Compute the errors of its predictions, relative to the predictions as in the paper."""
    return [
        Row(
            f"Table {number}",
            f"error with {row['warps']} warps, %",
            row["error_percent_paper"],
            100 * (1 - float(row["measured_cycles"]) / float(row["predicted_cycles"])),
            "arithmetic",
        )
        for number in KERNELS
        for row in table(f"teg_table_{number}")
    ]


def predictions() -> list[Row]:
    """Simulate the launches of Tables 2 to 5 by reconstructed traces, since the paper prints no code."""
    rows = []
    for number, (kernel, effects) in KERNELS.items():
        printed = table(f"teg_table_{number}")
        trace = trace_text.load(kernels.find(kernel).with_name(trace_text.FILE))
        cycles = teg.cycles(trace, [int(row["warps"]) for row in printed], effects=effects)
        rows += [
            Row(PREDICTIONS, f"Table {number}, {row['warps']} warps", row["predicted_cycles"], ours, "model")
            for row, ours in zip(printed, cycles.tolist(), strict=True)
        ]
    return rows


TABLES = (table_1, section_3, tables_2_to_5, predictions)

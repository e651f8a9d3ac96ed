"""Write the GPU catalogue, one TOML a card, from two tables of facts.

    python scripts/make_gpus.py GPUS_CSV CAPABILITY_CSV -o gpus/

GPUS_CSV has the columns gpu, parameter, value, unit, source, note: one row a finding, so that a parameter
may have several. CAPABILITY_CSV has one row for each compute capability. Each field of `dse.types.Gpu` gets
a value, its unit, its source, how it is known (stated, measured, fitted or derived), and a rule where it
was worked out.

Which rows count: those noted `REJECT:` never, those noted `SUSPECT:` and the others of SECOND_CHOICE only
where there is nothing else; then measured before stated (data sheet, compiler), before modelled (simulator,
compiler's scheduling model), before fitted. Measurements that disagree give their median; data sheets that
disagree stop the script until SET_ASIDE settles it.

Where a card has no row, a relative lends one. First measured and stated rows: the card itself, its named
RELATIVES, cards of the same compute capability. Then modelled and fitted rows of those. Then both kinds
from the same architecture family (major compute capability; GCN, CDNA, RDNA), from older generations,
nearest first, and from newer ones. Among cards equally near: the better kind of row, then the nearest
number of SMs.
"""

import argparse
import csv
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import NamedTuple

SOURCES = {
    "ABD22": "microbenchmarks of arXiv 2208.11174, as noted in kayzee3327/the-cuda-cache",
    "ACCEL": "Accel-Sim trace configuration",
    "ADARE": "SASS microbenchmarks of an RTX 4070 Ti Super",
    "AIHPC": "H200 specification page",
    "AMDAREA": "amdarea51.de specification page",
    "ARAFA": "NMSU-PEARL/GPUs-ISA-Latencies",
    "ASKGEEK": "askgeek.io specification page",
    "BAG": "Baghsorkhi et al. 2010",
    "CACHEN": "talk notes in kayzee3327/the-cuda-cache",
    "CATALOG": "specification page",
    "CHIPS": "Chips and Cheese",
    "COMGR": "AMD code object manager, LDS bank counts",
    "CPUTRONIC": "cputronic.com specification page",
    "CUPG15": "CUDA programming guide, throughput table (compute capability 1.x to 5.0)",
    "CUPG37": "CUDA programming guide, throughput table (compute capability 3.x to 7.x)",
    "CUPG86": "CUDA programming guide, throughput table (compute capability 8.0 and 8.6)",
    "CUXRAY": "occupancy tables after the CUDA programming guide and the CUDA 13 header",
    "DEVN": "readings of an H100 and an H200 with PyTorch and nvidia-smi",
    "DSASS": "0xD0GF00D/DocumentSASS, measured on compute capability 8.6",
    "FAMILY": "rule of the chip family",
    "GPGPUSIM": "GPGPU-Sim configuration",
    "H100ST": "study of an H100 SXM5",
    "H200P": "probe of an H200 (throughputs after the CUDA programming guide)",
    "HFCAT": "GPU catalogue by RajBhope",
    "HK": "Hong & Kim 2009",
    "KLOCK": "Glenn Lockwood's H100 page",
    "KOT": "Kothapalli et al. 2009",
    "LECT": "lecture table after NVIDIA data sheets",
    "LEM": "Lemeire et al., Tables 4 to 6",
    "LLVMBI": "LLVM, AMDGPU register and wave limits",
    "LLVMSCHED": "LLVM, AMDGPU scheduling model (not measured)",
    "MDW": "markdewing/AI_kernels, latency notes",
    "MT4G": "caps-tum/mt4g sample results",
    "OCC13": "cuda_occupancy.h of CUDA 13.0",
    "OCC65": "cuda_occupancy.h with compute capabilities 1.x and 2.x",
    "OCCTAB": "tables of occupancy calculators",
    "PAL": "AMD PAL, LDS allocation granule",
    "PPT": "NMSU-PEARL/PPT-GPU hardware file",
    "PTXAS": "stall count that ptxas puts between dependent instructions",
    "REACH": "L40S specification page",
    "ROCM": "ROCm documentation, GPU architecture tables",
    "RRZE": "RRZE-HPC/gpu-benches",
    "SJF": "sjfeng1999/gpu-arch-microbenchmark",
    "SYSR": "sysrqmts.com specification page",
    "TEG": "Lai & Seznec 2011",
    "TELAMON": "Telamon machine descriptions",
    "TPUCSV": "TechPowerUp list",
    "WIKI": "Wikipedia GPU lists",
    "YKT": "YKTian-x2b/AmpereArchViaMicroBenchMark",
}
MEASURERS = {
    *("ABD22", "ADARE", "ARAFA", "DEVN", "DSASS", "H100ST", "H200P"),
    *("LEM", "MDW", "MT4G", "RRZE", "SJF", "TEG", "YKT"),
}
MEASURABLE = ("lat_", "cpi_", "thr_l1", "thr_l2", "bw_", "time_", "issue_limit", "l1_size_measured", "clock_")
SECOND_CHOICE = re.compile(
    r"^SUSPECT:|includes (index|address) arithmetic|rounded in the paper|^rounded$|launch figure|around"
)

# Rows set aside by judgement: card, parameter, source, why.
SET_ASIDE = [
    *(
        (
            f"V100-SXM2-{memory}",
            f"lat_{level}",
            "MDW",
            "of a V100 of unknown form; the PCIe card is well measured",
        )
        for memory in ("16GB", "32GB")
        for level in ("l1", "l2", "dram")
    ),
    ("RTX 4090", "lat_l1", "MDW", "includes index arithmetic; the L40 was measured without"),
    ("RTX 2070", "lat_lds", "LEM", "32 holds address arithmetic; 23 is the bare load"),
    ("RTX 2070", "cpi_imul32", "LEM", "0.25 would need 128 integer lanes; the SM has 64"),
    ("GTX 650 Ti", "cpi_imul32", "LEM", "0.5 would need 64 lanes that multiply; the CUDA guide gives 32"),
    ("A100-PCIE-40GB", "lat_imul32", "ABD22", "3 is below the 4 that ptxas keeps between dependent IMADs"),
    ("A100-PCIE-40GB", "mem_type", "TPUCSV", "the 40 GB card carries HBM2, the 80 GB card HBM2e"),
    ("GTX280", "lat_lds", "KOT", "the cost of an access, not its latency"),
    ("GTX280", "lat_dram", "KOT", "the middle of a range quoted from the CUDA guide"),
    ("GeForce 8800GTX", "lat_dram", "BAG", "assumed for a worked example"),
    ("Quadro K620", "l1_size", "SYSR", "64 KiB is the size of the shared memory"),
    ("Radeon R9 380", "mem_bandwidth", "WIKI;AMDAREA", "Lemeire's board has memory of 5.5 GT/s"),
    ("MI300X", "l2_size", "MT4G", "one of eight dies"),
    ("H200", "mem_bus_width", "WIKI", "six memory stacks, as on the H100 NVL: 6144 bit"),
]

# Facts that GPUS_CSV lacks: card, parameter, value, unit, source.
EXTRA = [
    ("GTX 650 Ti", "l2_size", "256", "KiB", "CPUTRONIC"),
    ("Radeon R9 380", "l2_size", "512", "KiB", "CPUTRONIC"),
    ("Radeon R9 380", "gfx_name", "gfx802", "", "LLVMBI"),
    ("Radeon R9 380", "mem_type", "GDDR5", "", "AMDAREA"),
    ("H200", "mem_bus_width", "6144", "bit", "MT4G"),
    ("MI50", "mem_type", "HBM2", "", "TPUCSV"),
    ("MI250X (1 GCD)", "mem_type", "HBM2e", "", "ROCM"),
    ("Radeon PRO W7800", "mem_type", "GDDR6", "", "ROCM"),
    ("A100-SXM4-80GB", "sm_count", "108", "SMs", "RRZE"),
    ("A100-SXM4-80GB", "mem_bus_width", "5120", "bit", "RRZE"),
    ("A40", "sm_count", "84", "SMs", "RRZE"),
    ("A40", "mem_type", "GDDR6", "", "RRZE"),
    ("A40", "mem_bandwidth", "696", "GB/s", "RRZE"),  # 384 bit at 14.5 GT/s
    ("L40", "sm_count", "142", "SMs", "RRZE"),
    ("L40", "mem_type", "GDDR6", "", "WIKI"),
    ("L40", "mem_bus_width", "384", "bit", "WIKI"),
    ("L40", "mem_bandwidth", "864", "GB/s", "WIKI"),  # 384 bit at 18 GT/s
    ("MI210", "vendor", "AMD", "", "ROCM"),
    ("MI210", "architecture", "CDNA2", "", "ROCM"),
    ("MI210", "mem_type", "HBM2e", "", "ROCM"),
    ("MI210", "mem_bandwidth", "1638.4", "GB/s", "MT4G"),  # 4096 bit at 3.2 GT/s
    ("RX 6900 XT", "vendor", "AMD", "", "ROCM"),
    ("RX 6900 XT", "architecture", "RDNA2", "", "ROCM"),
]

# Boards with the same chip first, then stand-ins.
RELATIVES = {
    "V100-PCIe-16GB": ["TITAN V"],
    "V100-SXM2-16GB": ["V100-PCIe-16GB", "TITAN V"],
    "V100-SXM2-32GB": ["V100-PCIe-16GB", "TITAN V"],
    "A100-PCIE-40GB": ["A100-SXM4-80GB"],
    "H100 SXM": ["H200", "H100 PCIe", "GH200 96GB", "H100 NVL"],
    "H100 PCIe": ["H100 SXM", "H200", "GH200 96GB", "H100 NVL"],
    "H200": ["H100 SXM", "H100 PCIe", "GH200 96GB", "H100 NVL"],
    "RTX A6000": ["A40"],
    "RTX 3090": ["A40"],
    "L40S": ["L40"],
    "RTX 4090": ["L40", "RTX 4070 Ti Super"],
    "GTX 1060 6GB": ["Quadro P6000"],
    "MI250X (1 GCD)": ["MI210"],
    "Radeon PRO W6600": ["RX 6900 XT"],
}
NVIDIA = ["Tesla", "Fermi", "Kepler", "Maxwell", "Pascal", "Volta", "Turing", "Ampere", "Ada", "Hopper"]
AMD = ["GCN3", "GCN5.1", "CDNA2", "CDNA3", "RDNA2", "RDNA3"]  # RDNA is a line of its own
LIKE_MEMORY = {"GDDR3": "GDDR5", "GDDR6X": "GDDR6", "HBM3E": "HBM3"}  # where none of the type was measured

# The catalogue: key in GPUS_CSV, file name, full name, other names.
CATALOGUE = [
    ("GeForce 8800GTX", "geforce_8800_gtx", "NVIDIA GeForce 8800 GTX", ["8800-gtx", "g80"]),
    ("Quadro FX5600", "quadro_fx5600", "NVIDIA Quadro FX 5600", ["fx5600"]),
    ("GeForce 8800GT", "geforce_8800_gt", "NVIDIA GeForce 8800 GT", ["8800-gt", "g92"]),
    ("GTX280", "gtx_280", "NVIDIA GeForce GTX 280", ["gt200"]),
    ("Tesla C2050", "tesla_c2050", "NVIDIA Tesla C2050", ["c2050"]),
    ("GTX 650 Ti", "gtx_650_ti", "NVIDIA GeForce GTX 650 Ti", ["650-ti"]),
    ("Quadro K620", "quadro_k620", "NVIDIA Quadro K620", ["k620"]),
    ("GTX 1060 6GB", "gtx_1060_6gb", "NVIDIA GeForce GTX 1060 6GB", ["gtx-1060", "1060"]),
    ("RTX 2070", "rtx_2070", "NVIDIA GeForce RTX 2070", ["2070"]),
    ("RTX 2080 Ti", "rtx_2080_ti", "NVIDIA GeForce RTX 2080 Ti", ["2080-ti"]),
    ("TITAN RTX", "titan_rtx", "NVIDIA TITAN RTX", []),
    ("T4", "t4", "NVIDIA T4", ["tesla-t4"]),
    ("V100-PCIe-16GB", "v100_pcie_16gb", "NVIDIA V100-PCIE-16GB", ["tesla-v100-pcie-16gb", "v100-pcie"]),
    ("V100-SXM2-16GB", "v100_sxm2_16gb", "NVIDIA V100-SXM2-16GB", ["tesla-v100-sxm2-16gb"]),
    ("V100-SXM2-32GB", "v100_sxm2_32gb", "NVIDIA V100-SXM2-32GB", ["tesla-v100-sxm2-32gb"]),
    ("A100-PCIE-40GB", "a100_pcie_40gb", "NVIDIA A100-PCIE-40GB", ["a100", "a100-40gb", "a100-pcie"]),
    ("RTX A4000", "rtx_a4000", "NVIDIA RTX A4000", ["a4000"]),
    ("RTX A6000", "rtx_a6000", "NVIDIA RTX A6000", ["a6000"]),
    ("RTX 3090", "rtx_3090", "NVIDIA GeForce RTX 3090", ["3090"]),
    ("RTX 3060 Laptop", "rtx_3060_laptop", "NVIDIA GeForce RTX 3060 Laptop GPU", ["3060-laptop"]),
    ("RTX 4090", "rtx_4090", "NVIDIA GeForce RTX 4090", ["4090"]),
    ("L40S", "l40s", "NVIDIA L40S", []),
    ("H100 SXM", "h100_sxm", "NVIDIA H100 80GB HBM3", ["h100-sxm5", "h100-sxm-80gb"]),
    ("H100 PCIe", "h100_pcie", "NVIDIA H100 PCIe", ["h100-pcie-80gb"]),
    ("H200", "h200", "NVIDIA H200", ["h200-sxm"]),
    ("Radeon R9 380", "radeon_r9_380", "AMD Radeon R9 380", ["r9-380", "tonga"]),
    ("MI50", "mi50", "AMD Instinct MI50", ["instinct-mi50"]),
    ("MI250X (1 GCD)", "mi250x", "AMD Instinct MI250X (one GCD)", ["mi250x-gcd", "instinct-mi250x"]),
    ("MI300X", "mi300x", "AMD Instinct MI300X", ["instinct-mi300x"]),
    ("Radeon PRO W6600", "radeon_pro_w6600", "AMD Radeon PRO W6600", ["w6600"]),
    ("Radeon PRO W7800", "radeon_pro_w7800", "AMD Radeon PRO W7800", ["w7800"]),
]

UNITS = {  # start of a parameter's name: the units it may have
    "sm_count": {"SMs", "CUs"},
    "clock_": {"MHz"},
    "mem_bandwidth": {"GB/s"},
    "mem_bus_width": {"bit"},
    "l1_size_measured": {"B/SM"},
    "l1_size": {"KiB/SM", "KiB/CU"},
    "l2_size": {"KiB"},
    "lanes_": {"results/cycle/SM", "lanes/CU", "lanes/SM"},
    "cpi_": {"cycles", "cycles/warp instruction", "cycles/warp instruction/SM"},
    "lat_": {"cycles"},
    "sim_lat_": {"cycles"},
    "sched_lat_": {"cycles", "4-cycle slots"},
    "thr_l1": {"B/cycle/SM", "B/cycle/CU"},
    "thr_l2": {"GB/s"},
    "thr_syncthreads": {"thread-operations/cycle/SM"},
    "time_": {"ns/call"},
    "bw_": {"GB/s"},
    "issue_limit": {"warp instructions/cycle/SM", "wave instructions/cycle/CU"},
    "issue_cycles": {"cycles/warp instruction"},
    "mwp_departure": {"cycles"},
    "warp_size": {"work-items"},
    "max_threads_per_block": {"work-items"},
    "max_warps_per_sm": {"waves/CU"},
    "max_blocks_per_sm": {"work-groups/CU"},
    "regs_per_sm": {"32-bit registers/CU"},
    "max_regs_per_thread": {"VGPRs"},
    "reg_alloc_unit": {"VGPRs/lane"},
    "simds_per_cu": {"SIMDs"},
    "smem_per_sm_B": {"B/CU", "B/WGP"},
    "smem_": {"B"},
}
LIMITS = {  # field of `dse.types.Limits`: its unit
    "warp_size": "threads",
    "threads_per_block": "threads",
    "threads_per_sm": "threads",
    "warps_per_sm": "warps",
    "blocks_per_sm": "blocks",
    "one_warp_blocks_per_sm": "blocks",
    "registers_per_sm": "registers",
    "registers_per_block": "registers",
    "registers_per_thread": "registers",
    "register_unit": "registers",
    "registers_by_block": "1",
    "warp_unit": "warps",
    "sub_partitions": "1",
    "shared_bytes_per_sm": "B",
    "shared_bytes_per_block": "B",
    "shared_bytes_reserved": "B",
    "shared_unit_bytes": "B",
}
CLASSES = ("fp32", "fp64", "int32", "imul32", "sfu", "shared", "l1", "l2", "dram", "barrier")
MEASURED, STATED, MODELLED, FITTED = range(4)  # kinds of row, best first


class Row(NamedTuple):
    """One finding."""

    parameter: str
    value: str
    unit: str
    source: str
    note: str

    @property
    def kind(self) -> int:
        latency = self.parameter.startswith("lat_")
        if self.parameter.startswith("mwp_") or (latency and self.source in ("HK", "BAG", "KOT")):
            return FITTED
        if self.parameter.startswith(("sim_", "sched_")) or (latency and self.source == "PPT"):
            return MODELLED
        measured = set(self.source.split(";")) & MEASURERS and self.parameter.startswith(MEASURABLE)
        return MEASURED if measured and "driver-reported" not in self.note else STATED

    @property
    def provenance(self) -> str:
        if self.kind == MODELLED:  # a simulator is tuned; LLVM's model is AMD's word
            return "stated" if self.source == "LLVMSCHED" else "fitted"
        return {MEASURED: "measured", STATED: "stated", FITTED: "fitted"}[self.kind]

    @property
    def number(self) -> float:
        """The value, its unit checked; slots of four cycles become cycles."""
        start = max((p for p in UNITS if self.parameter.startswith(p)), key=len)
        if self.unit not in UNITS[start]:
            allowed = " or ".join(sorted(UNITS[start]))
            sys.exit(f"{self.parameter}: found unit '{self.unit}', expected {allowed}")
        return float(self.value) * (4 if self.unit == "4-cycle slots" else 1)


@dataclass(frozen=True)
class Value:
    """What goes into a file."""

    value: float
    unit: str
    source: str
    provenance: str = "derived"
    rule: str = ""

    def derived(self, value: float, rule: str, unit: str = "cycles") -> "Value":
        """Another value worked out from this one."""
        return Value(value, unit, self.source, "derived", rule)


def cite(keys: str) -> str:
    """What source keys stand for. `CC:` marks a copy of the capability table, which is no source itself."""
    return "; ".join(dict.fromkeys(SOURCES[key] for key in keys.removeprefix("CC:").split(";")))


def tidy(x: float) -> str:
    """A number as one writes it: four significant digits, or a whole number."""
    return f"{x:.0f}" if x == round(x) else f"{float(f'{x:.4g}'):g}"


@dataclass(eq=False)
class Card:
    """One card of the tables: its rows, its compute capability, and all cards to borrow from."""

    key: str
    rows: dict[str, list[Row]]
    capabilities: dict[str, dict[str, str]]
    others: dict[str, "Card"]

    def best(self, *parameters: str) -> list[Row]:
        """The rows of the best kind; where several of `parameters` have one, the first of these."""
        rows = [row for parameter in parameters for row in self.rows.get(parameter, [])]
        rows = [row for row in rows if not SECOND_CHOICE.search(row.note)] or rows
        kind = min((row.kind for row in rows), default=None)
        rows = [row for row in rows if row.kind == kind]
        return [row for row in rows if row.parameter == rows[0].parameter]

    def text(self, parameter: str) -> str:
        """A word, '' if there is none."""
        found = {row.value for row in self.best(parameter)}
        if len(found) > 1:
            sys.exit(f"{self.key}: {parameter}: sources disagree: {', '.join(sorted(found))}")
        return found.pop() if found else ""

    def own(self, *parameters: str, unit: str = "cycles") -> Value | None:
        """A number from the card's own rows."""
        rows = self.best(*parameters)
        if not rows:
            return None
        numbers = sorted({row.number for row in rows})
        if len(numbers) > 1 and rows[0].kind != MEASURED:
            sys.exit(f"{self.key}: {rows[0].parameter}: sources disagree: {', '.join(map(tidy, numbers))}")
        doubts = [note for row in rows if (note := row.note.partition(";")[0]).startswith("SUSPECT:")]
        source = cite(";".join(row.source for row in rows)) + "".join(f" ({note})" for note in doubts)
        rule = f"median of {', '.join(map(tidy, numbers))}" if len(numbers) > 1 else ""
        return Value(median(numbers), unit, source, rows[0].provenance, rule)

    def need(self, *parameters: str, unit: str = "cycles") -> Value:
        """A number that there must be."""
        found = self.own(*parameters, unit=unit)
        if found is None:
            sys.exit(f"{self.key}: no row for {' or '.join(parameters)}")
        return found

    @property
    def capability(self) -> str:
        """Compute capability, '' on AMD."""
        return self.text("compute_capability")

    @property
    def table(self) -> dict[str, str]:
        """Its row of the capability table."""
        return self.capabilities.get(self.capability, {})

    @property
    def amd(self) -> bool:
        return not self.capability

    @property
    def target(self) -> str:
        return self.capability or self.text("gfx_name")

    @property
    def architecture(self) -> str:
        return self.text("architecture") or self.table["arch"]

    @property
    def family(self) -> str:
        """The major compute capability, or GCN, CDNA, RDNA."""
        return self.capability.split(".")[0] or self.architecture.rstrip("0123456789.")

    @property
    def warp_size(self) -> int:
        return int(self.need("warp_size").value) if self.amd else 32

    @property
    def sm_count(self) -> float:
        return self.need("sm_count").value

    @property
    def uncached(self) -> bool:
        """Global loads of compute capability 1.x go straight to DRAM."""
        return self.capability.startswith("1.")

    def lanes(self, pipe: str) -> float | None:
        found, listed = self.own(f"lanes_{pipe}"), self.table.get(f"lanes_{pipe}")
        return found.value if found else float(listed) if listed else None

    def distance(self, other: "Card") -> float:
        """How far apart two numbers of SMs are."""
        mine, theirs = self.own("sm_count"), other.own("sm_count")
        return abs(math.log(mine.value / theirs.value)) if mine and theirs else math.inf

    def near(self) -> list[tuple[str, list["Card"]]]:
        """What they are to this card, and cards: itself, each named relative, those of the same target."""
        named = [self.others[key] for key in RELATIVES.get(self.key, []) if key in self.others]
        same = [other for other in self.others.values() if other is not self and other.target == self.target]
        what = f"same {'gfx target' if self.amd else 'compute capability'}"
        return [("", [self]), *(("nearest relative", [other]) for other in named), (what, same)]

    def far(self) -> list[tuple[str, list["Card"]]]:
        """The same family, then older generations, then newer ones, nearest first."""
        order = AMD if self.amd else NVIDIA
        here = order.index(self.architecture)
        strangers = [o for o in self.others.values() if o.amd == self.amd and o.target != self.target]
        levels = [("same architecture family", [o for o in strangers if o.family == self.family])]
        for generation in [*reversed(order[:here]), *order[here + 1 :]]:
            what = f"nearest generation with one, {generation}"
            levels.append((what, [o for o in strangers if o.architecture == generation]))
        return levels

    def borrow(
        self, *parameters: str, nearby: bool = False, alike: Callable[["Card"], bool] = lambda other: True
    ) -> Value | None:
        """The card's own value, or the nearest relative's among those that are `alike`."""
        for levels in (self.near(), [] if nearby else self.far()):
            for kinds in ((MEASURED, STATED), (MODELLED, FITTED)):
                for what, cards in levels:
                    kind = {o: rows[0].kind for o in cards if alike(o) and (rows := o.best(*parameters))}
                    lenders = [other for other in kind if kind[other] in kinds]
                    if lenders:
                        lender = min(lenders, key=lambda other: (kind[other], self.distance(other)))
                        value = lender.need(*parameters)
                        if lender is self:
                            return value
                        rule = f"as on {lender.key} ({what})" + f", {value.rule}" * bool(value.rule)
                        return value.derived(value.value, rule)
        return None

    def must_borrow(self, *parameters: str, alike: Callable[["Card"], bool] = lambda other: True) -> Value:
        found = self.borrow(*parameters, alike=alike)
        if found is None:
            sys.exit(f"{self.key}: no card lends {' or '.join(parameters)}")
        return found


def read(gpus_csv: Path, capability_csv: Path) -> dict[str, Card]:
    """All cards of the tables."""
    with capability_csv.open(newline="", encoding="utf-8") as file:
        capabilities = {row["cc"]: row for row in csv.DictReader(file)}
    with gpus_csv.open(newline="", encoding="utf-8") as file:
        found = [(row["gpu"], Row(*(row[column] for column in Row._fields))) for row in csv.DictReader(file)]
    cards: dict[str, Card] = {key: Card(key, {}, capabilities, {}) for key, _ in found}
    found += [(key, Row(*row, note="")) for key, *row in EXTRA if key in cards]
    aside = {row[:3] for row in SET_ASIDE}
    for key, row in found:
        cards[key].others = cards
        if not row.note.startswith("REJECT:") and (key, row.parameter, row.source) not in aside:
            cards[key].rows.setdefault(row.parameter, []).append(row)
    return cards


# Clock and memory


def clock(card: Card) -> Value:
    """The boost clock; the shader clock of cards before Kepler; the only clock of cards without boost."""
    boost, shader = card.own("clock_boost", unit="MHz"), card.own("clock_sm", unit="MHz")
    return boost or shader or card.need("clock_base", unit="MHz")


def dram_bandwidth(card: Card) -> Value:
    if card.key == "Radeon PRO W7800":
        rule = "256 bit x 18 GT/s / 8: its 64 MiB of Infinity Cache are four dies, each with 64 bit of GDDR6"
        return Value(576, "GB/s", f"{cite('ROCM')}; Radeon RX 7800 XT, of the same four dies", rule=rule)
    return card.need("mem_bandwidth", unit="GB/s")


def achieved(card: Card) -> Value | None:
    """GB/s, the most that reading or copying reached; MT4G's lower bounds only where nothing else."""
    load = card.own("cpi_dram")
    if load:  # Lemeire: a warp's 4-byte load
        reached = 4 * card.warp_size * card.sm_count * clock(card).value / 1e3 / load.value
        return Value(reached, "GB/s", load.source)
    rows = [row for name in ("read", "copy") for row in card.rows.get(f"bw_measured_{name}", [])]
    rows = [row for row in rows if row.source != "MT4G"] or rows
    if not rows:
        return None
    row = max(rows, key=lambda row: row.number)
    return Value(row.number, "GB/s", f"{cite(row.source)} ({row.parameter.removeprefix('bw_measured_')})")


def efficiency(card: Card) -> float | None:
    """Achieved over theoretical bandwidth."""
    reached, stated = achieved(card), card.own("mem_bandwidth")
    return reached.value / stated.value if reached and stated else None


def expected_efficiency(card: Card) -> tuple[float, str]:
    """Of a card that nobody measured, and whose it is: a named relative's, or the median for its memory."""
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
    """Cycles of one SM per 32-byte sector, at its share of the bandwidth that streaming reaches."""
    load = card.own("cpi_dram")
    if load:
        sectors = card.warp_size / 8
        rule = f"{tidy(load.value)} cycles of a coalesced 4-byte load / {tidy(sectors)} sectors"
        return replace(load, value=load.value / sectors, rule=rule)
    mhz, reached, how = clock(card).value, achieved(card), "measured"
    if reached is None:
        stated = dram_bandwidth(card)
        share, whose = expected_efficiency(card)
        reached = stated.derived(share * stated.value, "")
        how = f"{tidy(100 * share)} % of {tidy(stated.value)}, {whose}"
    cycles = 32 * card.sm_count * mhz / 1e3 / reached.value
    rule = f"32 B x {tidy(card.sm_count)} SMs x {tidy(mhz)} MHz / {tidy(reached.value)} GB/s ({how})"
    return reached.derived(cycles, rule)


def dram_latency(card: Card) -> Value:
    """In cycles from the card or near relatives; else the time that cards with such memory take."""
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
    """Of the data caches that global loads go through."""
    if card.uncached:
        nothing = Value(0, "KiB", cite("TEG"), rule="no cache for global loads, only for textures")
        return {"l1_bytes": nothing, "l2_bytes": nothing}
    if card.amd:
        l1 = card.need("l1_size", unit="KiB")
    elif card.table["l1_smem_unified_KiB"]:
        unified, shared = float(card.table["l1_smem_unified_KiB"]), float(card.table["smem_per_sm_B"]) / 1024
        source = f"{cite(card.table['source'])}; compute capability {card.capability}"
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
    if card.capability in ("8.6", "8.9"):  # measured rates are those of the load/store lanes
        return Value(1, "cycles", "NVIDIA, L1 width per SM", rule="128 B / 128 B/cycle and SM")
    for what, cards in [*card.near(), *(card.far()[:1] if card.amd else [])]:
        for other in cards:
            found = other.own("thr_l1")
            if found:
                where = f" on {other.key} ({what})" if what else ""
                return found.derived(128 / found.value, f"128 B / {tidy(found.value)} B/cycle{where}")
    if card.amd:
        return Value(2, "cycles", "AMD, vector cache width per CU", rule="128 B / 64 B/cycle and CU")
    width = 128 if card.capability in ("7.0", "8.0", "9.0") else 64
    return Value(128 / width, "cycles", "NVIDIA, L1 width per SM", rule=f"128 B / {width} B/cycle and SM")


def l2_bandwidth(card: Card) -> Value | None:
    """Measured on this card, bytes per cycle of the whole chip."""
    found, bound = card.own("thr_l2", unit="GB/s"), card.own("thr_l2_read", unit="GB/s")
    if found:
        return found.derived(found.value * 1e3 / clock(card).value, f"{tidy(found.value)} GB/s", "B/cycle")
    if bound is None:
        return None
    # MT4G's kernel is untuned. Where another tool measured too, this one found 2.1 times as much on A100,
    # 1.95 times on H100 (per SM and cycle), 1.2 times on MI210.
    factor = 1.2 if card.amd else 2
    rule = f"{factor} x MT4G's {tidy(bound.value)} GB/s"
    return bound.derived(factor * bound.value * 1e3 / clock(card).value, rule, "B/cycle")


def l2_cpi(card: Card) -> Value:
    """Cycles of one SM per 32-byte sector, at its share of the L2 bandwidth.

    Another chip of the same architecture has as much bandwidth per bit of memory bus, as L2 slices sit at the
    memory controllers; another architecture has as much per SM. At most 64 bytes a cycle reach an SM.
    """
    near = card.near()
    if not card.own("thr_l2") and any(other.own("thr_l2") for _, cards in near for other in cards):
        near = near[1:]  # MT4G's bound yields to what was measured on a relative
    for what, cards in [*near, *card.far()]:
        measured = {other: found for other in cards if (found := l2_bandwidth(other))}
        if not measured:
            continue
        lender = min(measured, key=lambda other: (not other.own("thr_l2"), card.distance(other)))
        found, where = measured[lender], f" of {lender.key} ({what})" if what else ""
        if lender.architecture == card.architecture:
            width, theirs = card.need("mem_bus_width").value, lender.need("mem_bus_width").value
            share = found.value * width / theirs / card.sm_count
            where += "" if width == theirs else f" x {tidy(width)} / {tidy(theirs)} bit of memory bus"
        else:
            share = found.value / lender.sm_count
        rule = f"32 B / {tidy(min(share, 64))} B/cycle and SM: {found.rule}{where}"
        return found.derived(32 / min(share, 64), rule)
    sys.exit(f"{card.key}: no card lends an L2 bandwidth")


# Instruction classes


def per_lane(card: Card, lanes: Value | None) -> Value | None:
    """Cycles of a warp instruction on a pipe so many lanes wide."""
    if lanes is None:
        return None
    where = f", {lanes.rule}" if lanes.rule else ""
    rule = f"{card.warp_size} threads / {tidy(lanes.value)} lanes{where}"
    return lanes.derived(card.warp_size / lanes.value, rule)


def arithmetic_cpi(card: Card) -> dict[str, Value]:
    """λ of the pipes that compute: measured, or the threads of a warp over the lanes of the pipe."""
    lanes = card.need("lanes_fp32")
    fp32 = card.own("cpi_fadd", "cpi_fmul") or per_lane(card, lanes)
    if card.amd and lanes.value > 64:
        rule = f"{card.warp_size} threads / 64 lanes; the others need packed or dual-issued instructions"
        fp32 = lanes.derived(card.warp_size / 64, rule)
    assert fp32 is not None
    same = fp32.derived(fp32.value, "as fp32: the same lanes")
    quarter = fp32.derived(4 * fp32.value, "a quarter of the fp32 rate")

    int32 = card.own("cpi_iadd") or per_lane(card, card.own("lanes_int32")) or same
    if card.capability == "3.0":
        imul32 = Value(1, "cycles", cite("CUPG37"), rule="32 threads / 32 lanes that multiply")
    elif card.amd:
        imul32 = card.own("cpi_imul32") or quarter
    elif float(card.capability) >= 7:
        imul32 = int32.derived(int32.value, "as int32: IMAD runs at that rate")
    else:
        imul32 = card.must_borrow("cpi_imul32")

    sfu = card.own("cpi_mufu_cos") or per_lane(card, card.borrow("lanes_sfu")) or quarter
    fp64 = card.own("cpi_dfma", "cpi_dmul") or per_lane(card, card.own("lanes_fp64"))
    single = fp32.derived(fp32.value, "as fp32: no double precision, the compiler demotes double to float")
    return {"fp32": fp32, "fp64": fp64 or single, "int32": int32, "imul32": imul32, "sfu": sfu}


def shared_cpi(card: Card) -> Value:
    """Cycles of one pass without bank conflict, 128 bytes."""
    found = card.own("cpi_lds")
    if found and card.amd:
        rule = f"{tidy(found.value)} cycles of a 64-wide 4-byte access / 2 passes of 128 B"
        return replace(found, value=found.value / 2, rule=rule)
    if found:
        return found
    if card.amd:
        return Value(1, "cycles", "AMD, LDS width per CU", rule="128 B / 128 B/cycle and CU")
    if card.uncached:
        rule = "two half-warps x 2 cycles over 16 banks"
        return Value(4, "cycles", f"{cite('KOT')}; {cite('TEG')}", rule=rule)
    if card.capability == "7.5":
        return card.must_borrow("cpi_lds")
    return Value(1, "cycles", "NVIDIA, shared memory width per SM", rule="128 B / 128 B/cycle and SM")


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
    found, rate, timed = card.own("cpi_bar_sync"), card.own("thr_syncthreads"), timed_barrier(card)
    if found:
        return found
    if rate:
        rule = f"32 threads / {tidy(rate.value)} barrier operations a cycle"
        return rate.derived(32 / rate.value, rule)
    return timed[0] if timed else card.must_borrow("cpi_bar_sync")


def throughputs(card: Card) -> dict[str, Value]:
    """λ of each class."""
    out = arithmetic_cpi(card)
    out["shared"], out["barrier"], out["dram"] = shared_cpi(card), barrier_cpi(card), dram_cpi(card)
    if card.uncached:
        for level, sectors in (("l1", 4), ("l2", 1)):
            rule = f"no cache for global loads: DRAM's{' x 4 sectors' if sectors > 1 else ''}"
            out[level] = out["dram"].derived(sectors * out["dram"].value, rule)
    else:
        out["l1"], out["l2"] = l1_cpi(card), l2_cpi(card)
    return out


def load_store(card: Card) -> dict[str, Value]:
    """λ of a memory instruction in the load/store units, and whether L1 and shared memory are one."""
    lanes, source = card.own("lanes_ldst"), "NVIDIA, load/store units per SM"
    width = {"7.5": 16, "8.0": 32, "8.6": 16, "8.9": 16, "9.0": 32}
    if card.amd:
        source, rule = "AMD", "no figure found: one a cycle, so that the memories behind bind"
        cycles = Value(1, "cycles", source, rule=rule)
    elif card.uncached:
        cycles = Value(4, "cycles", cite("TEG"), rule="32 threads / 8 lanes")
    elif lanes:
        cycles = lanes.derived(
            32 / lanes.value, f"32 threads / {tidy(lanes.value)} load/store lanes", "cycles"
        )
    else:
        rule = f"32 threads / {width[card.capability]} load/store lanes"
        if card.capability in ("8.6", "8.9"):
            source, rule = cite("YKT"), f"{rule} (63.6 B/cycle of 4-byte loads on RTX 3060 Laptop)"
        cycles = Value(32 / width[card.capability], "cycles", source, rule=rule)
    one = not card.amd and card.capability.split(".")[0] not in ("1", "5", "6")
    rule = "since Volta, and on Fermi and Kepler, one memory is divided; Maxwell, Pascal and AMD have two"
    return {
        "lsu_cycles": cycles,
        "l1_with_shared": Value(float(one), "1", "CUDA programming guide; ROCm documentation", rule=rule),
    }


def latencies(card: Card, cpi: dict[str, Value]) -> dict[str, Value]:
    """Λ of each class."""
    out: dict[str, Value] = {}
    fp32 = out["fp32"] = card.must_borrow("lat_ffma", "lat_fmul", "lat_fadd", "sched_lat_ffma")
    near = card.borrow("lat_iadd", "lat_lop3", "lat_shf", "sched_lat_valu32", nearby=True)
    out["int32"] = near or fp32.derived(fp32.value, "as fp32: the same pipe")
    transcendental = "lat_mufu", "lat_mufu_ex2", "lat_mufu_cos", "sim_lat_sfu", "sched_lat_trans32"
    sfu = out["sfu"] = card.must_borrow(*transcendental)

    near = card.borrow("lat_imul32", "lat_imad", "sched_lat_imul32", nearby=True)
    if near is None and card.uncached:
        busy = cpi["imul32"].value - cpi["fp32"].value
        near = fp32.derived(fp32.value + busy, f"fp32's and the {tidy(busy)} cycles more in the unit")
    elif near is None and card.amd:
        near = sfu.derived(sfu.value, "as sfu: both at a quarter of the fp32 rate")
    out["imul32"] = near or card.must_borrow("lat_imul32")

    doubles = "lat_dfma", "lat_dmul", "lat_dadd", "sim_lat_dp", "sched_lat_fp64"
    lanes = card.lanes("fp64")
    if card.amd:
        turns = cpi["fp64"].value / cpi["fp32"].value
        rule = f"fp32's x {tidy(turns)}: the lanes take so many turns"
        fp64 = card.borrow(*doubles, nearby=True) or fp32.derived(fp32.value * turns, rule)
    elif lanes is None and card.uncached:
        fp64 = fp32.derived(fp32.value, cpi["fp64"].rule)
    else:
        fp64 = card.must_borrow(*doubles, alike=lambda other: other.lanes("fp64") == lanes)
    out["fp64"] = fp64

    out["shared"] = card.must_borrow("lat_lds", "sim_lat_smem")
    dram = out["dram"] = dram_latency(card)
    for level, parameters in (("l1", ("lat_l1", "sim_lat_l1")), ("l2", ("lat_l2",))):
        if card.uncached:
            out[level] = dram.derived(dram.value, "no cache for global loads: DRAM's")
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
    found = card.own("issue_limit", unit="1")
    if found:
        return found
    if card.amd:
        simds = card.need("simds_per_cu", unit="1")
        turn, each = (1, "each cycle") if card.family == "RDNA" else (4, "every 4 cycles")
        rule = f"{tidy(simds.value)} SIMDs, each issues a vector instruction of any class {each}"
        return simds.derived(simds.value / turn, rule, "1")
    if card.uncached:
        return Value(0.5, "1", cite("TEG"), rule="one issue slot in two cycles of the shader clock")
    each, of = float(card.table["issue_per_scheduler"]), float(card.table["schedulers_per_sm"])
    rule = f"{tidy(of)} schedulers x {tidy(each)} a cycle{' (dual issue)' if each > 1 else ''}"
    return Value(each * of, "1", cite(card.table["lanes_source"]), rule=rule)


# Limits


def nvidia_limits(card: Card) -> dict[str, Value]:
    table, source = card.table, f"{cite(card.table['source'])}; compute capability {card.capability}"
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
        rule = f"{tidy(shared.value)} B of a work-group processor / 2 CUs (CU mode)"
        shared = out["shared_bytes_per_sm"] = shared.derived(shared.value / 2, rule, "B")

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


# Files


def describe(card: Card) -> dict[str, Value]:
    """Every field of `dse.types.Gpu`; names of tables are joined by dots."""
    cpi, limit = throughputs(card), issue_limit(card)
    latency, limits = latencies(card, cpi), amd_limits(card) if card.amd else nvidia_limits(card)
    fp32, l2, sectors = cpi["fp32"], cpi["l2"], card.warp_size / 8
    rule = f"the larger of 1 / issue_limit, {tidy(1 / limit.value)}, and cpi.fp32, {tidy(fp32.value)}"
    issue = fp32.derived(max(1 / limit.value, fp32.value), rule)
    rule = f"cpi.l2 x {tidy(sectors)} sectors of a coalesced 4-byte access"
    coalesced, uncoalesced = l2.derived(sectors * l2.value, rule), l2.derived(l2.value, "cpi.l2, one sector")
    return {
        "sm_count": card.need("sm_count", unit="1"),
        "clock": clock(card),
        "dram_bandwidth": dram_bandwidth(card),
        **cache_sizes(card),
        "issue_limit": limit,
        "issue_cycles": card.own("issue_cycles") or issue,
        "departure_delay_coal_cycles": card.own("mwp_departure_del_coal") or coalesced,
        "departure_delay_uncoal_cycles": card.own("mwp_departure_del_uncoal") or uncoalesced,
        **load_store(card),
        **{f"limits.{name}": limits[name] for name in LIMITS},
        **{f"cpi.{name}": cpi[name] for name in CLASSES},
        **{f"latency.{name}": latency[name] for name in CLASSES},
    }


def lines(card: Card, name: str, aliases: Iterable[str]) -> Iterator[str]:
    """A GPU file."""
    yield "# Written by scripts/make_gpus.py: change the facts or the rules there."
    yield f"name = {json.dumps(name)}"
    yield f"aliases = {json.dumps(list(aliases))}"
    yield f"vendor = {json.dumps('AMD' if card.amd else 'NVIDIA')}"
    yield f"architecture = {json.dumps(card.architecture)}"
    yield f"{'gfx_name' if card.amd else 'compute_capability'} = {json.dumps(card.target)}"
    for field, entry in describe(card).items():
        yield ""
        yield f"[{field}]"
        yield f"value = {entry.value:.6g}"
        yield f"unit = {json.dumps(entry.unit)}"
        yield f"source = {json.dumps(entry.source)}"
        yield f"provenance = {json.dumps(entry.provenance)}"
        if entry.rule:
            yield f"rule = {json.dumps(entry.rule)}"


def main() -> None:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("gpus_csv", type=Path)
    parser.add_argument("capability_csv", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=Path("gpus"))
    arguments = parser.parse_args()
    cards = read(arguments.gpus_csv, arguments.capability_csv)
    arguments.output.mkdir(parents=True, exist_ok=True)
    for key, slug, name, aliases in CATALOGUE:
        text = "\n".join(lines(cards[key], name, aliases)) + "\n"
        (arguments.output / f"{slug}.toml").write_text(text, encoding="utf-8")
    print(f"{len(CATALOGUE)} cards in {arguments.output}")


if __name__ == "__main__":
    main()

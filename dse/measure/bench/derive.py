"""λ, Λ, bandwidths and limits from recorded microbenchmarks. Pure functions of the recording.

Source of the forms: the Pipeline paper's occupancy roofline (one instruction of each of ω warps takes
max(Λ, λ ω) cycles), and its instruction mix, Eqs. 43 to 45, with corrected denominators: β instructions
of one kind and one of the other take β λ1 + λ2 cycles in one pipe, max(β λ1, λ2) in two, and never less than
(β + 1) / IL.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dse.errors import DseError
from dse.measure.bench.benchmarks import INSTRUCTIONS
from dse.measure.bench.records import BenchmarkRecord, BenchRecording

SECTOR, PASS = 32, 128  # bytes
DOUBTFUL = 0.1  # spread that causes a warning
CLOCK_CHANGES = 0.02


@dataclass(frozen=True)
class Value:
    """A number of the GPU, the relative spread of its measurements, and how it was computed."""

    value: float
    unit: str
    spread: float
    rule: str


@dataclass(frozen=True)
class Point:
    """One point of a curve, for the report."""

    chart: str
    series: str
    x: float
    y: float


def values(recording: BenchRecording) -> dict[str, Value]:
    """Compute every quantity of a GPU file that is measured, by its name there.

    **Raises:** DseError if the recording lacks measurements.
    """
    by_name: dict[str, Value] = {}
    by_name["clock"] = clock(recording)
    for name in ("fp32", "fp64", "int32", "imul32", "sfu"):
        by_name[f"cpi.{name}"], by_name[f"latency.{name}"] = of_pipe(recording, name)
    by_name["latency.shared"] = of_pipe(recording, "shared")[1]
    by_name["cpi.shared"] = pass_of_banks(recording)
    by_name["lsu_cycles"] = load_store(recording)
    by_name["cpi.l1"] = of_pipe(recording, "l1")[0]
    by_name["latency.l1"], by_name["latency.l2"], by_name["latency.dram"] = plateaus(recording)
    by_name["cpi.l2"] = sector(recording, "l2")
    by_name["cpi.dram"] = sector(recording, "dram")
    by_name["cpi.barrier"], by_name["latency.barrier"] = barrier(recording)
    by_name["issue_limit"] = issue_limit(recording)
    fp32, limit = by_name["cpi.fp32"], by_name["issue_limit"].value
    rule = f"the larger of 1 / issue_limit, {1 / limit:.4g}, and cpi.fp32, {fp32.value:.4g}"
    by_name["issue_cycles"] = Value(max(1 / limit, fp32.value), "cycles", fp32.spread, rule)
    l2 = by_name["cpi.l2"]
    rule = "cpi.l2 x 4 sectors of a coalesced 4-byte access"
    by_name["departure_delay_coal_cycles"] = replace(l2, value=4 * l2.value, rule=rule)
    by_name["departure_delay_uncoal_cycles"] = replace(l2, rule="cpi.l2, one sector")
    return by_name


def _some(recording: BenchRecording, benchmark: str, **parameters: Any) -> list[BenchmarkRecord]:
    records = recording.of(benchmark, **parameters)
    if not records:
        what = ", ".join([benchmark, *(f"{name} {value}" for name, value in parameters.items())])
        raise DseError(
            f"{recording.device['name']}: records: found none of {what}, expected some; was the "
            "budget too small?"
        )
    return records


# Pipes


def cycles_of(record: BenchmarkRecord) -> float:
    """Return the cycles of an SM for one warp instruction (of each warp: times its warps)."""
    return record.value / (float(record.parameters["insts"]) * float(record.parameters["warps"]))


def of_pipe(recording: BenchRecording, name: str) -> tuple[Value, Value]:
    """Compute λ and Λ of a class: an SM's fewest cycles for an instruction, and a dependent one's wait."""
    units = INSTRUCTIONS[name].units
    records = _some(recording, "pipes", **{"class": name})
    best = min(records, key=cycles_of)
    warps, chains = best.parameters["warps"], best.parameters["chains"]
    passes = f", over {units} passes" if units > 1 else ""
    rule = f"least cycles of an SM for one{passes}, at {warps} warps, {chains} independent each"
    throughput = Value(cycles_of(best) / units, "cycles", best.repeats.spread, rule)
    [alone] = _some(recording, "pipes", **{"class": name, "chains": 1, "warps": 1})
    rule = "cycles from one to the next of a chain, one warp"
    return throughput, Value(cycles_of(alone), "cycles", alone.repeats.spread, rule)


def interval(recording: BenchRecording, name: str) -> float:
    """Return the cycles from one independent instruction of a warp to its next."""
    records = _some(recording, "pipes", **{"class": name, "warps": 1})
    return min(map(cycles_of, records))


def barrier(recording: BenchRecording) -> tuple[Value, Value]:
    """Compute λ and Λ of a barrier: slope over the block's warps, and intercept."""
    records = _some(recording, "pipes", **{"class": "barrier"})
    warps = [float(record.parameters["warps"]) for record in records]
    times = [cycles_of(record) * float(record.parameters["warps"]) for record in records]
    slope, start, error = _line(warps, times)
    ends = f"{times[0]:.4g} cycles for {warps[0]:.0f} warps, {times[-1]:.4g} for {warps[-1]:.0f}"
    return (
        Value(max(slope, 1e-3), "cycles", error, f"slope of a line over the warps: {ends}"),
        Value(max(start, 1e-3), "cycles", error, f"that line at no warps: {ends}"),
    )


def _line(x: Sequence[float], y: Sequence[float]) -> tuple[float, float, float]:
    """Fit a line: slope, value at zero, and median distance of the points over their median."""
    if len(set(x)) < 2:
        return y[0] / x[0], 0.0, 0.0
    slope, start = np.polyfit(x, y, 1)
    error = np.median(np.abs(np.polyval([slope, start], x) - y)) / np.median(y)
    return float(slope), float(start), float(error)


def pass_of_banks(recording: BenchRecording) -> Value:
    """Compute λ of one pass through the banks: slope over the degree of conflict, of 4-byte loads."""
    records = [
        record
        for record in _some(recording, "banks", store=0, words=1)
        if int(record.parameters["degree"]) >= 4
    ]
    if len(records) < 2:
        raise DseError(f"{recording.device['name']}: records: found no bank conflicts, expected some")
    degrees = [float(record.parameters["degree"]) for record in records]
    slope, start, error = _line(degrees, [cycles_of(record) for record in records])
    ends = f"{min(degrees):.0f} to {max(degrees):.0f} ({start:+.3g} at 0)"
    rule = f"slope over degrees of bank conflict, {ends}"
    return Value(slope, "cycles", error, rule)


def load_store(recording: BenchRecording) -> Value:
    """Compute the cycles of a memory instruction in the load/store units: all threads read one word."""
    [record] = _some(recording, "banks", store=0, words=1, degree=0)
    rule = "cycles of an SM for a load of one word from shared memory by all threads of a warp"
    return Value(cycles_of(record), "cycles", record.repeats.spread, rule)


def issue_limit(recording: BenchRecording) -> Value:
    """Find the most warp instructions a cycle that an SM reached, rounded if within 5 % of an integer."""
    rates: list[tuple[float, str, float]] = []
    for record in recording.of("pipes"):
        what = str(record.parameters["class"])
        rates.append((1 / cycles_of(record), what, record.repeats.spread))
    for record in recording.of("mix"):
        beta = int(record.parameters["beta"])
        what = f"{beta} {record.parameters['first']} to 1 {record.parameters['second']}"
        rates.append(((beta + 1) / group_cycles(record), what, record.repeats.spread))
    if not rates:
        raise DseError(f"{recording.device['name']}: records: found no pipes, expected some")
    rate, what, spread = max(rates)
    rounded = round(rate)
    near = rounded > 0 and abs(rate - rounded) <= 0.05 * rounded
    rule = f"most that was reached, {rate:.4g}, by {what}" + (", rounded" if near else "")
    return Value(float(rounded) if near else rate, "1", spread, rule)


# Mixes of two kinds


def group_cycles(record: BenchmarkRecord) -> float:
    """Return the cycles of an SM for β instructions of the first kind and one of the second."""
    return record.value / (float(record.parameters["seconds"]) * float(record.parameters["warps"]))


@dataclass(frozen=True)
class PipeSharing:
    """Two classes of instructions, and whether one pipe serves both."""

    first: str
    second: str
    one: bool
    error_one: float  # mean relative error of the cycles with one pipe for both
    error_two: float  # and with a pipe for each


def shared_pipes(recording: BenchRecording) -> list[PipeSharing]:
    """Decide for each mixed pair which form fits better: β λ1 + λ2, or the larger of β λ1 and λ2.

    λ1 and λ2 are those of each class alone. The issue limit bounds both forms.
    """
    limit = issue_limit(recording).value
    pairs: list[PipeSharing] = []
    names = dict.fromkeys(
        (str(record.parameters["first"]), str(record.parameters["second"])) for record in recording.of("mix")
    )
    for first, second in names:
        errors_one, errors_two = [], []
        left, other = (
            min(map(cycles_of, _some(recording, "pipes", **{"class": name}))) for name in (first, second)
        )
        for record in recording.of("mix", first=first, second=second):
            beta, cycles = int(record.parameters["beta"]), group_cycles(record)
            least = (beta + 1) / limit
            errors_one.append(abs(max(beta * left + other, least) / cycles - 1))
            errors_two.append(abs(max(beta * left, other, least) / cycles - 1))
        means = float(np.mean(errors_one)), float(np.mean(errors_two))
        pairs.append(PipeSharing(first, second, means[0] < means[1], *means))
    return pairs


# Memory


def plateaus(recording: BenchRecording) -> tuple[Value, Value, Value]:
    """Compute Λ of L1, L2 and DRAM: the flat parts of the chase's curve, by the sizes of the caches.

    L1: sets up to 16 KiB. L2: through the L1, from 1 MiB (more than any L1) to an eighth of the L2, or the
    nearest size. DRAM: from four times the L2 to sixteen times.
    """
    l2 = int(recording.device["attributes"]["L2_CACHE_SIZE"])
    points = {int(record.parameters["bytes"]): record for record in _some(recording, "chase", cache="ca")}

    def flat(name: str, low: int, high: int) -> Value:
        inside = [size for size in points if low <= size <= high]
        if not inside:  # a small L2, or little memory
            inside = [min(points, key=lambda size: abs(np.log(size / low)))]
        times = [points[size].value for size in inside]
        middle = float(np.median(times))
        rule = f"middle of loads one after another from {_size(min(inside))} to {_size(max(inside))} ({name})"
        return Value(middle, "cycles", (max(times) - min(times)) / middle, rule)

    low = min(2**20, max(2**18, l2 // 8))
    return (
        flat("L1", 2**10, 2**14),
        flat("L2", low, max(low, l2 // 8)),
        flat("DRAM", 4 * l2, 16 * l2),
    )


def _size(size: int) -> str:
    for unit, worth in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= worth:
            return f"{size / worth:g} {unit}"
    return f"{size} B"


def bandwidth(record: BenchmarkRecord) -> float:
    """Return the bytes a second that a stream moved, in whole sectors."""
    accesses, width, stride = (int(record.parameters[name]) for name in ("accesses", "width", "stride"))
    moved = (
        accesses
        * (width if width * stride <= SECTOR else SECTOR)
        * (stride if width * stride <= SECTOR else 1)
    )
    both = 2 if "copy" in str(record.parameters["stream"]) else 1
    return both * moved / (record.value / 1e3)


def fastest(recording: BenchRecording, level: str) -> BenchmarkRecord:
    """Find the fastest read of a level with adjacent threads."""
    reads = [
        record
        for record in _some(recording, "stream", level=level, stride=1)
        if str(record.parameters["stream"]).startswith("read")
    ]
    return max(reads, key=bandwidth)


def sector(recording: BenchRecording, level: str) -> Value:
    """Compute λ of the L2 or of DRAM: cycles of an SM for a sector, at its share of the bandwidth."""
    record = fastest(recording, level)
    sms = int(recording.device["attributes"]["MULTIPROCESSOR_COUNT"])
    mhz, reached = clock(recording).value, bandwidth(record) / 1e9
    cycles = SECTOR * sms * mhz / 1e3 / reached
    rule = f"32 B x {sms} SMs x {mhz:.5g} MHz / {reached:.4g} GB/s ({record.parameters['stream']})"
    return Value(cycles, "cycles", record.repeats.spread, rule)


def clock(recording: BenchRecording) -> Value:
    """Take the clock under load, as the median of its slices."""
    [record] = _some(recording, "clock", load="fp32")
    count = len(record.repeats.values)
    rule = f"median of {count} slices under load, by the SMs' cycles and the GPU's nanoseconds"
    return Value(record.value, "MHz", record.repeats.spread, rule)


def extras(recording: BenchRecording) -> list[dict[str, Any]]:
    """List results that the GPU file has no field for: name, value, unit, spread."""
    rows: list[dict[str, Any]] = []

    def row(name: str, value: float, unit: str, record: BenchmarkRecord | None = None) -> None:
        spread = record.repeats.spread if record is not None else None
        rows.append({"name": name, "value": value, "unit": unit, "spread": spread})

    for record in recording.of("stream"):
        parameters = record.parameters
        name, level, stride = (parameters[key] for key in ("stream", "level", "stride"))
        apart = f", {stride} apart" if stride != 1 else ""
        if level == "l1":
            passes = float(parameters["accesses"]) * float(parameters["width"]) / PASS
            row(f"L1 {name}: a pass", record.value / passes, "cycles", record)
        else:
            row(f"{str(level).upper()} {name}{apart}", bandwidth(record) / 1e9, "GB/s", record)
    for record in recording.of("local"):
        what = "store" if record.parameters["store"] else "load"
        row(f"local {what}, {record.parameters['warps']} warps", cycles_of(record), "cycles", record)
    for record in recording.of("launch"):
        row(f"launch, {record.parameters['launch']}", record.value, "us", record)
    for record in recording.of("clock"):
        row(f"clock, {record.parameters['load']}", record.value, "MHz", record)
    for name in dict.fromkeys(str(record.parameters["class"]) for record in recording.of("pipes")):
        row(f"same warp, independent {name}", interval(recording, name), "cycles")
    through = writes_through(recording)
    if through is not None:
        row("local stores over the L2's time for their sectors", through, "1")
    return rows


def writes_through(recording: BenchRecording) -> float | None:
    """Return the cycles of a local store over those of its sectors in the L2: about 1 if all go there."""
    stores = recording.of("local", store=1)
    writes = recording.of("stream", stream="write_16", level="l2")
    if not stores or not writes:
        return None
    sms = int(recording.device["attributes"]["MULTIPROCESSOR_COUNT"])
    sector_cycles = SECTOR * sms * clock(recording).value * 1e6 / bandwidth(writes[0])
    return min(map(cycles_of, stores)) / (4 * sector_cycles)


def warnings(recording: BenchRecording, derived: Mapping[str, Value]) -> list[str]:
    """List reasons for doubt: large spreads, unsettled repeats, a changing clock."""
    lines = [
        f"{name}: {value.value:.4g} {value.unit}, but its measurements are {100 * value.spread:.0f} % apart"
        for name, value in derived.items()
        if value.spread > DOUBTFUL
    ]
    unsettled = [record for record in recording.records if not record.repeats.settled]
    if unsettled:
        first = unsettled[0]
        where = ", ".join(f"{name} {value}" for name, value in first.parameters.items())
        count = f"{len(unsettled)} of {len(recording.records)}"
        lines.append(f"{count} did not settle; the first: {first.benchmark}, {where}")
    clocks = [float(record.parameters["mhz"]) for record in recording.records if "mhz" in record.parameters]
    if clocks:
        low, high = np.percentile(clocks, [5, 95])
        if high > (1 + CLOCK_CHANGES) * low:
            lines.append(
                f"clock: changed between {low:.0f} and {high:.0f} MHz; cycles do not, bandwidths may"
            )
    return lines


# Curves


def curves(recording: BenchRecording) -> list[Point]:
    """List the points of all charts."""
    points: list[Point] = []
    for record in recording.of("pipes"):
        parameters, units = record.parameters, INSTRUCTIONS[str(record.parameters["class"])].units
        chains = int(parameters["chains"])
        series = str(parameters["class"]) + ("" if chains == 1 else ", independent")
        points.append(
            Point("occupancy roofline", series, float(parameters["warps"]), units / cycles_of(record))
        )
    for record in recording.of("chase"):
        series = "through the L1" if record.parameters["cache"] == "ca" else "past the L1"
        points.append(Point("latency", series, float(record.parameters["bytes"]), record.value))
    for record in recording.of("banks"):
        parameters = record.parameters
        what = "store" if parameters["store"] else "load"
        series = f"{what} of {4 * int(parameters['words'])} bytes"
        points.append(Point("bank conflicts", series, float(parameters["degree"]), cycles_of(record)))
    for record in recording.of("stream", stream="read_4", level="dram"):
        useful = int(record.parameters["accesses"]) * 4 / (record.value / 1e3) / 1e9
        stride = float(record.parameters["stride"])
        points.append(Point("strided reads", "asked for", stride, useful))
        points.append(Point("strided reads", "moved", stride, bandwidth(record) / 1e9))
    for record in recording.of("mix"):
        parameters = record.parameters
        beta = int(parameters["beta"])
        series = f"{parameters['first']} to {parameters['second']}"
        points.append(Point("instruction mix", series, float(beta), beta / group_cycles(record)))
    for record in recording.of("clock", load="fp32, from the start"):
        points += [
            Point("clock", "fp32", float(number), mhz) for number, mhz in enumerate(record.repeats.values)
        ]
    return points


CHARTS: dict[str, tuple[str, str]] = {  # titles of the axes
    "occupancy roofline": ("warps of an SM", "units of work a cycle and SM"),
    "latency": ("bytes that are chased through", "cycles a load"),
    "bank conflicts": ("threads that meet in one bank (0: all take one word)", "cycles an access and SM"),
    "strided reads": ("words from thread to thread", "GB/s"),
    "instruction mix": (
        "β, instructions of the first kind for one of the second",
        "of the first kind, a cycle",
    ),
    "clock": ("slices of 20 ms under load", "MHz"),
}

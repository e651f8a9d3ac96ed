"""Configurations of our kernels, compiled, launched and timed on a GPU, each a row of a table.

A separate process uses the GPU. If a launch breaks it (an illegal address) or does not end, that process is
ended, the configuration fails, and a new process continues with the next. Other processes compile ahead.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from dse import kernels
from dse.core.cluster import without_script
from dse.data.tables import rows_of
from dse.errors import DseError
from dse.kernels.description import ArrayArgument, Description, evaluated_names
from dse.measure.arguments import TimingJob
from dse.measure.bench.gpu_file import SWEPT
from dse.measure.built import BuiltSpace, code_of, digest_of
from dse.measure.compiling import compile_all, compiled
from dse.measure.device import Device, DeviceError, driver_takes
from dse.measure.journal import Journal, Row
from dse.measure.reference import REFERENCES
from dse.measure.timing import TimingBench, TimingSettings
from dse.source.contract import Failure, Settings, Source
from dse.source.launches import Array, Configuration, configurations
from dse.source.nvidia.compile.contract import Compiled
from dse.source.nvidia.compile.nvrtc import compiler
from dse.source.nvidia.source import source_of
from dse.types import Gpu

Number = int | float


@dataclass(frozen=True)
class SpacePlan:
    """Some configurations of one kernel, in the order in which they are timed."""

    description: Description
    source: Source | BuiltSpace
    sizes: dict[str, Number]
    parameters: list[dict[str, Number]]
    configurations: list[Configuration]  # with the sizes of all arrays
    valid: int  # configurations of the whole space

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.description.name

    @property
    def settings(self) -> list[Settings]:
        """The compiler's settings of each configuration. DseError if the compiler is missing."""
        assert not isinstance(self.source, BuiltSpace)
        return [
            self.source.settings(configuration.defines, configuration.arguments)
            for configuration in self.configurations
        ]

    def code(self, arch: int, which: Sequence[int]) -> Iterator[Compiled | Failure]:
        """Yield the code of configurations, compiled by other processes or built in advance."""
        if isinstance(self.source, BuiltSpace):
            position = {row: number for number, row in enumerate(self.source.parameters)}
            for index in which:
                yield self.source.compiled(position[tuple(self.parameters[index].values())])
        else:
            settings = self.settings
            yield from compiled(self.source, arch, [settings[index] for index in which])


def plan(
    description: Description,
    sizes: Mapping[str, Number],
    gpu: Gpu,
    sample: int | None,
    seed: int,
    built: BuiltSpace | None = None,
) -> SpacePlan:
    """Plan `sample` random configurations (default: all). A larger sample begins with a smaller one.

    With `built`, the configurations are among those that were built for these sizes; nothing is compiled.

    **Raises:** DseError if the kernel has no source or no reference, or has changed since it was built.
    """
    name = description.name
    if name not in REFERENCES:
        raise DseError(f"kernel: found {name}, expected one that can be checked: {', '.join(REFERENCES)}")
    source = source_of(description) if built is None else built
    valid = description.space.configurations(sizes) if built is None else _built(description, built)
    count = len(next(iter(valid.values())))
    order = np.random.default_rng(seed).permutation(count)[:sample]
    columns = {key: values[order] for key, values in valid.items()}
    sized = _with_sizes(description, columns, sizes, gpu)
    rows = rows_of(columns)
    clash = _COLUMNS & {*columns, *sizes}
    if clash:
        raise DseError(f"{name}: parameters: found {min(clash)}, expected a name that no column of ours has")
    return SpacePlan(description, source, dict(sizes), rows, sized, count)


def _built(description: Description, built: BuiltSpace) -> dict[str, np.ndarray]:
    """Return the built configurations whose parameters have values of the space."""
    if built.digest != digest_of(description):
        raise DseError(f"{description.name}: digest: found another than when it was built; build it again")
    values = description.space.values
    rows = [
        row
        for row in built.parameters
        if all(number in values[name] for name, number in zip(built.names, row, strict=True))
    ]
    if not rows:
        raise DseError(f"{description.name}: parameters: found values that were not built")
    columns = zip(*rows, strict=True)
    return {name: np.array(column) for name, column in zip(built.names, columns, strict=True)}


_COLUMNS = {
    *("kernel", "status", "message", "time_ms", "min_ms", "cv", "repeats", "settled", "registers"),
    *("spill_bytes", "local_bytes", "shared_bytes", "dynamic_shared_bytes", "threads", "blocks"),
    *("resident_blocks", "occupancy", "sm_clock_before_mhz", "sm_clock_after_mhz"),
}


def _with_sizes(
    description: Description, columns: Mapping[str, np.ndarray], sizes: Mapping[str, Number], gpu: Gpu
) -> list[Configuration]:
    """Return configurations that also have the sizes of arrays without stated contents."""
    assert description.build is not None
    stated = configurations(description, columns, sizes, gpu)
    names = evaluated_names(description, columns, sizes, gpu)
    sized = {
        number: (
            stated_argument.type,
            np.broadcast_to(stated_argument.size(names, np), (len(stated),)).astype(int).tolist(),
        )
        for number, stated_argument in enumerate(description.build.arguments)
        if isinstance(stated_argument, ArrayArgument) and stated_argument.values is None
    }
    arrays = [
        {number: Array(n[row], type_, "", ()) for number, (type_, n) in sized.items()}
        for row in range(len(stated))
    ]
    return [
        replace(
            value,
            arguments=tuple(
                arrays[row].get(number, argument) for number, argument in enumerate(value.arguments)
            ),
        )
        for row, value in enumerate(stated)
    ]


def dry_run(plan: SpacePlan, arch: int, advance: Callable[[int], None]) -> list[Compiled | Failure]:
    """Compile all configurations of a plan, to show what would run."""
    assert not isinstance(plan.source, BuiltSpace)
    return compile_all(plan.source, arch, plan.settings, advance)


def build(
    plan: SpacePlan, arch: int, gpu: Gpu, advance: Callable[[int], None], workers: int | None = None
) -> BuiltSpace:
    """Compile all configurations of a plan for a file, except those with too much shared memory."""
    assert not isinstance(plan.source, BuiltSpace)
    most = int(gpu.limits.shared_bytes_per_block)
    outcomes = compile_all(plan.source, arch, plan.settings, advance, workers)
    return BuiltSpace(
        kernel=plan.name,
        digest=digest_of(plan.description),
        compiler=plan.source.compiler,
        sizes=plan.sizes,
        names=plan.description.space.names,
        parameters=tuple(tuple(row.values()) for row in plan.parameters),
        outcomes=tuple(code_of(outcome, most) for outcome in outcomes),
    )


def measure(
    plans: Sequence[SpacePlan],
    arch: int,
    journal: Journal,
    gpu: "GpuProcess",
    budget: float | None = None,
    advance: Callable[[int], None] = lambda done: None,
) -> bool:
    """Time every configuration that the journal lacks, within `budget` seconds.

    Each plan gets an equal share of the remaining time. Returns whether all are done.

    **Raises:** DseError if there is no GPU, or it cannot be used at all.
    """
    begun, complete = time.monotonic(), True
    try:
        gpu.start()  # meanwhile the first configurations are compiled
        for number, plan in enumerate(plans):
            share = None
            if budget is not None:
                now = time.monotonic()
                share = now + max(0.0, (begun + budget - now) / (len(plans) - number))
            complete &= _measure_one(plan, arch, journal, gpu, share, advance)
    finally:
        gpu.drop()
    return complete


def _measure_one(
    plan: SpacePlan,
    arch: int,
    journal: Journal,
    gpu: "GpuProcess",
    until: float | None,
    advance: Callable[[int], None],
) -> bool:
    sizes = tuple(plan.sizes.values())
    done = journal.done(plan.name, [*plan.description.space.names, *plan.sizes])
    left = [index for index, row in enumerate(plan.parameters) if (*row.values(), *sizes) not in done]
    advance(len(plan.parameters) - len(left))
    for index, outcome in zip(left, plan.code(arch, left), strict=True):
        if until is not None and time.monotonic() > until:
            return False
        parameters = plan.parameters[index]
        job = TimingJob(plan.name, parameters, plan.sizes, plan.configurations[index], outcome)
        rows = gpu.rows(job, until)
        if rows is None:
            return False
        for row in rows:
            journal.add({"kernel": plan.name, **parameters, **plan.sizes, **row})
        advance(1)
    return True


@dataclass
class GpuProcess:
    """The process that uses the GPU, restarted when it breaks or hangs."""

    settings: TimingSettings
    ordinal: int = 0
    worker: Callable[[Connection, TimingSettings, int], None] | None = None
    patience: float = 60.0  # seconds for one configuration, with all steps of a sweep
    first_patience: float = (
        240.0  # for the first one of a kernel and its sizes, which includes making the arrays
    )
    grace: float = 10.0  # seconds beyond the budget for a configuration begun in time

    def __post_init__(self) -> None:
        self.process: Any = None
        self.case: Any = None  # kernel and problem sizes
        self.broken = 0  # successive processes that ended without an answer

    def rows(self, job: TimingJob, until: float | None = None) -> list[Row] | None:
        """Time a configuration in the process; None if time was up before its answer.

        **Raises:** DseError if no process can use the GPU.
        """
        if self.process is None:
            self.start()
        first, self.case = self.case != job.case, job.case
        try:
            self.connection.send(job)
            patience = max(self.first_patience, self.patience) if first else self.patience
            left = patience if until is None else max(0.0, until - time.monotonic()) + self.grace
            if self.connection.poll(min(patience, left)):
                answer = self.connection.recv()
                self.broken = 0
                if answer["lost"]:
                    self.drop()
                if answer["error"]:
                    raise DseError(answer["error"])
                return answer["rows"]
            if left < patience:
                self.drop()
                return None
            status, message = "timeout", f"no answer in {patience:g} s"
        except (EOFError, OSError):
            status, message = "runtime", "the process that used the GPU ended"
            self.broken += 1
        self.drop()
        if self.broken > 3:
            raise DseError(f"GPU: found {self.broken} processes that ended in a row, expected one that works")
        return [{"status": status, "message": message}]

    def start(self) -> None:
        """Start the process."""
        context = get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(
            target=self.worker or work, args=(other, self.settings, self.ordinal), daemon=True
        )
        with without_script():
            self.process.start()
        other.close()
        self.case = None

    def drop(self) -> None:
        """End the process, by force if necessary."""
        if self.process is None:
            return
        self.connection.close()
        self.process.join(timeout=2)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process = None


def work(connection: Connection, settings: TimingSettings, ordinal: int) -> None:
    """Run in the process that uses the GPU, until the connection closes."""
    with suppress(EOFError, OSError, KeyboardInterrupt):
        try:
            with Device(ordinal) as device:
                driver_takes(device.driver_version, compiler())
                answer(connection, TimingBench(device, settings).rows)
        except (DseError, DeviceError) as error:  # no GPU, or it cannot be used
            connection.recv()
            connection.send({"rows": [], "lost": True, "error": str(error)})


def answer(connection: Connection, timed: Callable[[TimingJob], Iterable[Row]]) -> None:
    """Time received configurations until one breaks the GPU. **Raises:** EOFError at the end."""
    lost = False
    while not lost:
        job: TimingJob = connection.recv()
        rows: list[Row] = []
        try:
            rows.extend(timed(job))
        except (DeviceError, DseError) as error:
            lost = isinstance(error, DeviceError)
            rows.append({"status": "runtime", "message": str(error)})
        connection.send({"rows": rows, "lost": lost, "error": ""})


# Where measurements are kept


def store(path: Path, slug: str) -> dict[str, int]:
    """Store each kernel's rows of a table as measured/<gpu>.parquet in its folder; return rows by file.

    A sweep over the occupancy goes to measured/<gpu>_occupancy.parquet. Problem sizes other than the
    kernel.toml's are part of the name: measured/<gpu>-m1024-n512.parquet.

    **Raises:** DseError if the table cannot be read, or a kernel is not in the catalogue.
    """
    from dse.measure import journal

    about, rows = journal.read(path)
    end = SWEPT if about["sweep"] else ""
    stored = {}
    for name in dict.fromkeys(row.get("kernel") for row in rows):
        if name not in about["kernels"] or not re.fullmatch(r"[\w-]+", str(name)):  # no path
            raise DseError(f"{path}: kernel: found {name!r}, expected the name of one that was measured")
    for name in dict.fromkeys(row["kernel"] for row in rows):
        folder, usual = kernels.find(name).parent / "measured", kernels.load(name).sizes()
        folder.mkdir(exist_ok=True)
        by_case: dict[str, list[Row]] = {}
        for row in rows:
            if row["kernel"] == name:
                cells = {key: value for key, value in row.items() if key != "kernel"}
                by_case.setdefault(_case(cells, usual), []).append(cells)
        for case, case_rows in by_case.items():
            target = folder / f"{slug}{end}{case}.parquet"
            journal.write(target, {**about, "kernels": {name: about["kernels"][name]}}, case_rows)
            stored[str(target)] = len(case_rows)
    return stored


def _case(row: Row, usual: Mapping[str, Number]) -> str:
    """Spell the problem sizes of a row that differ from the usual ones."""
    return "".join(f"-{name}{row[name]:g}" for name, size in usual.items() if row.get(name, size) != size)

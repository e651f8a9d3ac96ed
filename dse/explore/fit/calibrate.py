"""A GPU file fitted to measured spaces, with errors on fitted and held-out configurations."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import jax.numpy as jnp
import numpy as np

from dse.core.precision import in_64_bits
from dse.core.progress import Progress, silent
from dse.data import measured
from dse.data.scores import mape, spearman
from dse.data.tables import Result
from dse.errors import DseError, check_names
from dse.explore.fit import launches
from dse.explore.fit.fit import METHODS, WALK, Data, Fit, Method, Parameters, fit, stages
from dse.explore.fit.launches import compiled_log_seconds
from dse.explore.fit.parameters import bounds, check, names_for, widths
from dse.hardware.gpus import GpuFile
from dse.hardware.gpus import write as gpu_text
from dse.hardware.gpus.facts import Fact
from dse.kernels.counts import Counts, Number
from dse.models import get
from dse.models.protocol import Model

HELD = "held out: a fifth of the configurations"
HELD_OUT = 0.2  # of the configurations of each space
MOST = 1_000  # configurations of a file by default: evenly over the order of their times


@dataclass(frozen=True)
class MeasuredSpace:
    """One measured file of one kernel on one of the GPUs."""

    kernel: Counts
    problem: Mapping[str, Number]
    path: Path
    gpu: int


@dataclass(frozen=True, repr=False)
class Calibration(Result):
    """The fit of some GPUs to measured spaces, and its scores."""

    files: Sequence[GpuFile]
    spaces: Sequence[MeasuredSpace]
    model: str
    fit: Fit  # to all data
    scores: tuple[dict[str, Any], ...]
    ran: int  # number of configurations that ran
    evenly: bool  # whether the fitted ones are evenly spaced over the times, else random

    def rows(self, top: int | None = None) -> list[dict[str, Any]]:
        """Return the first `top` of `fields`; by default all."""
        return self.fields()[:top]

    def write(self, path: Path | str) -> None:
        """Write the fitted GPU file, or one per GPU in a folder. DseError as `write`."""
        write(self, Path(path))

    def fields(self) -> list[dict[str, Any]]:
        """Return one row per fitted field and GPU."""
        rows = []
        for number, file in enumerate(self.files):
            records = {record.field: record for record in file.fields}
            undetermined, doubts = self.fit.undetermined(number), self.fit.doubts(number)
            logs, spreads = self.fit.logs(number), self.fit.spreads(number)
            for name, log, spread in zip(self.fit.parameters.names, logs, spreads, strict=True):
                if name not in records:  # of products that this GPU does not support
                    continue
                old = records[name]
                rows.append(
                    {"gpu": file.name, "field": name, "unit": old.unit, "catalogue": old.value}
                    | {"fitted": old.value * float(np.exp(log)), "spread_percent": 100 * float(spread)}
                    | {"determined": name not in (*undetermined, *doubts), "note": doubts.get(name, "")}
                )
        return rows

    @property
    def basis(self) -> str:
        """Describe the fitted data."""
        counted = sum(row["configurations"] for row in self.scores if row["data"] != "held out: the kernel")
        spread = "" if counted == self.ran else ", evenly over their times" if self.evenly else " at random"
        of = "" if counted == self.ran else f" of {self.ran:,}"
        return f"{counted:,}{of} configurations that ran{spread}"

    @property
    def worth(self) -> str:
        """Describe the accuracy on held-out configurations; "" without any."""
        held = [row for row in self.scores if row["data"] == HELD]
        if not held:
            return ""
        before, after, free = (
            float(np.average([row[name] for row in held], weights=[row["configurations"] for row in held]))
            for name in ("mape_before_percent", "mape_percent", "mape_unbounded_percent")
        )
        now = f"{after:.1f} % after ({free:.1f} % without bounds)"
        return f"error of times held out {before:.1f} % before, {now}"

    def errors(self) -> list[dict[str, Any]]:
        """Return one row per data set: before and after the fit."""
        return list(self.scores)

    def undetermined(self) -> dict[str, tuple[str, ...]]:
        """Return, by GPU, the fields that the data do not determine."""
        return {file.name: self.fit.undetermined(number) for number, file in enumerate(self.files)}


def calibrate(
    spaces: Sequence[MeasuredSpace],
    files: Sequence[GpuFile],
    model: str | Model,
    free: Sequence[str] | None = None,
    shared: Sequence[str] = (),
    method: str = "lm",
    starts: int = 4,
    sample: int | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> Calibration:
    """Fit GPUs to measured spaces: to all, and again without held-out configurations for validation.

    **Raises:** DseError for an unknown field or method, a file that cannot be read, or if nothing ran.
    """
    predictor = get(model)
    check(tuple(free or ()))
    check(tuple(shared), "shared")
    for name in shared:
        if free and name not in free:
            raise DseError(
                f"shared: found {name}, expected one of the fields that are free: {', '.join(free)}"
            )
    check_names("method", METHODS, method)
    random = np.random.default_rng(seed)
    read = [_data(space, files[space.gpu], sample, random) for space in spaces]
    data, ran = [part for part, _ in read], sum(count for _, count in read)
    names = tuple(free or names_for(part.launches.kernel for part in data))
    of_each = np.stack([widths(file, names) for file in files])
    limits = np.stack([bounds(file, names) for file in files], axis=1)
    parameters = Parameters(names, of_each, frozenset(shared) & frozenset(names), limits)
    gpus = [space.gpu for space in spaces]

    walk = WALK if predictor.differentiable else 0  # too slow for simulations

    train = [part.only(random.uniform(size=len(part)) >= HELD_OUT) for part in data]
    if not any(np.asarray(part.counts).any() for part in train):
        raise DseError("sample: found no configuration left to fit, expected more of them")
    held = [part.only(~np.asarray(part.counts)) for part in train]
    without = range(len(spaces)) if len({space.kernel.name for space in spaces}) > 1 else ()
    with progress("Fitting", (2 + len(without)) * stages(1) + stages(starts)) as advance:

        def fitted(
            some: Sequence[Data], start: int = 1, how: Parameters = parameters, steps: int | None = None
        ) -> Fit:
            return fit(some, gpus, how, predictor, cast(Method, method), start, seed, steps, advance)

        to_train, unbounded = fitted(train), fitted(train, how=replace(parameters, bounds=None))
        scores = [
            *_scores("fitted", spaces, train, to_train, predictor, unbounded),
            *_scores(HELD, spaces, held, to_train, predictor, unbounded),
        ]
        for number in without:
            own = [other.kernel.name == spaces[number].kernel.name for other in spaces]
            others = [part.only(np.full(len(part), not out)) for part, out in zip(data, own, strict=True)]
            to_others = fitted(others)
            scores += _scores("held out: the kernel", [spaces[number]], [data[number]], to_others, predictor)
        return Calibration(
            files,
            spaces,
            predictor.name,
            fitted(data, starts, steps=walk),
            tuple(scores),
            ran,
            sample is None,
        )


def check_target(path: Path, gpus: int) -> None:
    """Check that this number of fitted GPUs can be written to a path. **Raises:** DseError."""
    if gpus > 1 and (path.suffix == ".toml" or path.is_file()):
        raise DseError(f"{path}: found a file for {gpus} GPUs, expected a folder")
    if gpus == 1 and path.suffix != ".toml":
        raise DseError(f"{path}: found suffix {path.suffix!r}, expected .toml")


def write(calibration: Calibration, path: Path) -> None:
    """Write the GPU file, or one per GPU in a folder."""
    check_target(path, len(calibration.files))
    for number, file in enumerate(calibration.files):
        target = path if len(calibration.files) == 1 else path / f"{file.path.stem}.toml"
        target.parent.mkdir(parents=True, exist_ok=True)
        undetermined = calibration.fit.undetermined(number)
        logs, spreads = calibration.fit.logs(number, determined=True), calibration.fit.spreads(number)
        moved = {
            name: (log, spread)
            for name, log, spread in zip(calibration.fit.parameters.names, logs, spreads, strict=True)
            if name not in undetermined or log
        }
        source = "dse fit to " + ", ".join(
            f"{space.path.name} ({space.kernel.name})" for space in calibration.spaces if space.gpu == number
        )
        records = [
            replace(
                record,
                value=float(record.value * np.exp(moved[record.field][0])),
                source=source,
                provenance="fitted",
                rule=f"by {calibration.model}, from {record.value:g} {record.unit}",
                spread=float(moved[record.field][1]),
                follows=None,
            )
            if record.field in moved
            else _kept(record, moved)
            for record in file.fields
        ]
        header = file.header.model_copy(update={"name": f"{file.header.name}, fitted", "aliases": []})
        left = f"{calibration.fit.unexplained:.1%} of a time is left unexplained"
        comments = [f"{source}, by {calibration.model}: {left}."]
        if undetermined:
            comments.append(
                f"As in the catalogue, since the data do not determine them: {', '.join(undetermined)}."
            )
        if doubts := calibration.fit.doubts(number):
            doubtful = ", ".join(f"{name} ({why})" for name, why in doubts.items())
            comments.append(f"As fitted, but doubtful: {doubtful}.")
        gpu_text.write(target, header, records, comments)


def _kept(record: Fact, moved: Container[str]) -> Fact:
    """Return a quantity without fit, with its value during the fit, even if it followed another."""
    follows = record.follows is not None and record.follows.field in moved
    return replace(record, follows=None) if follows else record


def _data(
    space: MeasuredSpace, file: GpuFile, sample: int | None, random: np.random.Generator
) -> tuple[Data, int]:
    """Read a space as data of this number of configurations; return also the number that ran."""
    table = measured.load(space.path, space.kernel)
    ran = np.flatnonzero(table.ok)
    count = len(ran)
    if sample is not None:
        ran = np.sort(random.permutation(ran)[:sample])
    elif len(ran) > MOST:
        by_time = ran[np.argsort(table.fastest_s[ran], kind="stable")]
        ran = np.sort(by_time[np.linspace(0, len(ran) - 1, MOST).round().astype(int)])
    if not len(ran):
        raise DseError(f"{space.path}: found no configuration that ran, expected at least one")
    table = table.rows(ran)
    sizes = {**space.problem, **table.problem}
    laid_out = launches.of_kernel(space.kernel, file.gpu, table.parameters, sizes)
    return Data.of(laid_out, table.fastest_s), count


def _scores(
    what: str,
    spaces: Sequence[MeasuredSpace],
    data: Sequence[Data],
    fitted: Fit,
    model: Model,
    unbounded: Fit | None = None,
) -> Iterator[dict[str, Any]]:
    """Score the catalogue's GPU, the fitted one, and the one fitted without bounds."""
    names = fitted.parameters.names
    for space, part in zip(spaces, data, strict=True):
        counts = np.asarray(part.counts)
        with in_64_bits():
            before, after, free = (
                np.exp(np.asarray(compiled_log_seconds(part.launches, model, names, jnp.asarray(logs))))[
                    counts
                ]
                for logs in (
                    np.zeros(len(names)),
                    fitted.logs(space.gpu),
                    (unbounded or fitted).logs(space.gpu),
                )
            )
            times = np.exp(np.asarray(part.log_seconds))[counts]
        if not len(times):
            continue
        yield {
            "data": what,
            "kernel": space.kernel.name,
            "configurations": len(times),
            "mape_before_percent": mape(before, times),
            "mape_percent": mape(after, times),
            "mape_unbounded_percent": mape(free, times) if unbounded else None,
            "spearman_before": spearman(before, times),
            "spearman": spearman(after, times),
        }

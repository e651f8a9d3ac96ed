"""Run a plan, reducing units as they finish or writing rows to a file; resume interrupted runs."""

import hashlib
import io
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dse.core.cluster import Executor
from dse.core.files import HAS_LOCKS, check_target, locked, open_own, own, read_json, replacing
from dse.core.progress import Progress, silent
from dse.data import safe_readers
from dse.errors import DseError
from dse.explore.sweep import rows
from dse.explore.sweep.entries import Entries
from dse.explore.sweep.plan import Plan
from dse.explore.sweep.reductions import Buckets

EVERY = 3.0  # s between checkpoints of a reduction
SHARE = 0.05  # of the time, at most, for checkpoints
_NOTE, _LOCK = "job.json", ".lock"  # in a folder of unfinished work


def reduced(
    plan: Plan, execute: Executor, folder: Path | None = None, progress: Progress = silent
) -> Entries | None:
    """Reduce all units; None without any configuration.

    With a `folder`, the state is checkpointed there every few seconds, and a restarted run resumes from it.
    The caller removes the folder.

    **Raises:** DseError if `folder` holds other files or cannot be written.
    """
    if folder is None:
        return _reduced(plan, execute, None, progress)
    with begun(folder, key(plan)):
        return _reduced(plan, execute, folder / "state.npz", progress)


def _reduced(plan: Plan, execute: Executor, state: Path | None, progress: Progress) -> Entries | None:
    assert plan.reduction is not None
    buckets, first = Buckets(plan.reduction), 0
    if state is not None and state.exists():
        first, buckets.results = _read(state, plan)
    saved, wait = time.monotonic(), EVERY
    done = first
    with progress("Sweeping", plan.units) as advance:
        advance(first)
        try:
            for units, part in execute(plan.reduced, range(first, plan.units)):
                buckets.add(part)
                done = units.stop
                advance(len(units))
                if state is not None and time.monotonic() - saved > wait:
                    before = time.monotonic()
                    _checkpoint(state, done, buckets)
                    saved = time.monotonic()
                    wait = max(EVERY, (saved - before) / SHARE)
        except KeyboardInterrupt:
            if state is not None and done > first:
                _checkpoint(state, done, buckets)
            raise
    return buckets.whole()


def written(
    plan: Plan,
    out: Path,
    execute: Executor,
    columns: list[str] | None = None,
    progress: Progress = silent,
) -> int:
    """Write the rows of all units to a Parquet file; return their number.

    Finished units are kept beside the file until it is complete, so that an interrupted run can resume.

    **Raises:** DseError if `out` is not a .parquet file or cannot be written.
    """
    if out.suffix.lower() != ".parquet":
        raise DseError(f"{out}: suffix: found {out.suffix or 'no suffix'!r}, expected .parquet")
    schema = rows.schema(plan.product, columns)
    folder = parts_of(out)
    check_target(out)
    with begun(folder, key(plan, columns=columns)):
        first = next((unit for unit in range(plan.units) if not _part(folder, unit).exists()), plan.units)
        with progress("Sweeping", plan.units) as advance:
            advance(first)
            for units, parts in execute(partial(_tables, plan, schema), range(first, plan.units)):
                for unit, content in zip(units, parts, strict=True):
                    with replacing(_part(folder, unit)) as path:
                        path.write_bytes(content)
                advance(len(units))
        count = 0
        with replacing(out, folder) as path, pq.ParquetWriter(path, schema, compression="zstd") as writer:
            for unit in range(plan.units):
                if not (part := _part(folder, unit)).stat().st_size:
                    continue
                table = safe_readers.parquet(part)
                with safe_readers.refused(part):
                    table = table.cast(schema)
                writer.write_table(table)
                count += table.num_rows
        clear(folder)
    return count


def clear(folder: Path) -> None:
    """Remove the folder of finished work; the note last, which identifies the rest."""
    for path in folder.iterdir():
        if path.name not in (_NOTE, _LOCK):
            path.unlink()
    shutil.rmtree(folder.resolve())
    if folder.is_symlink():  # for example to a larger disk
        folder.unlink()


def tables(plan: Plan, execute: Executor, columns: list[str] | None = None) -> Iterator[pa.Table]:
    """Yield the rows of all units, in order."""
    schema = rows.schema(plan.product, columns)
    yield schema.empty_table()
    for _, parts in execute(partial(_tables, plan, schema), range(plan.units)):
        for part in parts:
            if part:
                yield pq.read_table(io.BytesIO(part)).cast(schema)


def _tables(plan: Plan, schema: pa.Schema, units: range) -> list[bytes]:
    """The rows of units as Parquet files; empty for a unit without rows."""
    return [_table(plan, schema, unit) for unit in units]


def _table(plan: Plan, schema: pa.Schema, unit: int) -> bytes:
    tables = [rows.table(chunk, schema) for chunk in plan.chunks(unit)]
    if not sum(map(len, tables)):
        return b""
    content = io.BytesIO()
    pq.write_table(pa.concat_tables(tables), content, compression="zstd")
    return content.getvalue()


def parts_of(out: Path) -> Path:
    """The folder of unfinished work beside a file."""
    return out.with_name(out.name + ".parts")


def key(plan: Plan, **more: Any) -> str:
    """A hash of everything that a result depends on."""
    identity = repr((plan.product.key, plan.starts, plan.reduction, plan.where, sorted(more.items())))
    return hashlib.sha256(identity.encode()).hexdigest()


def _part(folder: Path, unit: int) -> Path:
    return folder / f"{unit:09}.parquet"


@contextmanager
def begun(folder: Path, key: str) -> Iterator[None]:
    """Open a folder of unfinished work: of an interrupted run of the same sweep, or an empty one.

    **Raises:** DseError if it holds other files, or another process uses it.
    """
    try:
        folder.mkdir(exist_ok=True)  # may be a user's link to another folder
    except OSError as error:
        raise DseError(f"{folder}: cannot write: {error.strerror}") from None
    with _alone(folder):
        note = folder / _NOTE
        others = [own(path) for path in folder.iterdir() if not path.name.startswith(".")]
        if others and not note.exists():
            raise DseError(f"{folder}: found files of another origin, expected none; move the folder away")
        if not note.exists() or _job(note) != {"job": key}:
            for path in others:
                path.unlink()
            with replacing(note) as path:
                path.write_text(json.dumps({"job": key}))
        yield


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold a folder's lock. **Raises:** DseError if another process has it."""
    if not HAS_LOCKS:  # without locks, a folder with an open file cannot be removed either
        yield
        return
    with open_own(folder / _LOCK) as file:
        if not (locked(file) and os.fstat(file.fileno()).st_nlink):  # no links: its folder was just removed
            raise DseError(f"{folder}: found a sweep that has not ended, expected its end first")
        yield


def _job(note: Path) -> Any:
    with suppress(DseError):
        job = read_json(note)
        if isinstance(job, dict) and job.keys() == {"job"}:
            return job
    raise DseError(f"{note}: found no note of a sweep, expected one; move the folder away")


def _checkpoint(state: Path, done: int, buckets: Buckets) -> None:
    """Write the state of a reduction, atomically."""
    parts = buckets.results.items()
    arrays = {f"{name}|{column}": values for name, part in parts for column, values in part.items()}
    with replacing(state) as path, path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays, done=np.asarray(done))


def _read(state: Path, plan: Plan) -> tuple[int, dict[str, Entries]]:
    arrays = safe_readers.arrays(state)
    columns: dict[str, dict[str, np.ndarray]] = {}
    for name, values in arrays.items():
        bucket, parted, column = name.partition("|")
        if parted:
            columns.setdefault(bucket, {})[column] = values
    done = arrays.get("done", np.zeros(1))
    with safe_readers.refused(state):  # merging validates the content before work continues
        assert plan.reduction is not None
        whole = {name: plan.reduction.merged([part]) for name, part in columns.items()}
        if done.shape or done.dtype.kind != "i" or not 0 <= done <= plan.units:
            raise DseError(f"{state}: cannot read: found no count of what is done; move its folder away")
        return int(done), whole

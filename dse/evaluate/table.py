"""Whole spaces to one Parquet file: every configuration of every kernel, on every GPU, by every model.

One row a (kernel, GPU, model, configuration). Rows are written chunk by chunk into a folder beside the
file, so that memory stays bounded and an interrupted run goes on where it stopped.
"""

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dse.counts import Counts, Number
from dse.errors import DseError
from dse.evaluate.chunks import CHUNK, Evaluation, chunks, evaluate
from dse.files import replacing
from dse.gpus.read import GpuFile, stack
from dse.hardware import occupancy
from dse.models import get_all
from dse.models.protocol import Model
from dse.progress import Progress, silent
from dse.version import __version__


@dataclass(frozen=True)
class SweepJob:
    """A sweep to write: a space for each kernel, all GPUs, all models."""

    kernels: tuple[Counts, ...]
    problems: tuple[Mapping[str, Number], ...]  # the sizes of each kernel
    gpus: tuple[GpuFile, ...]
    models: tuple[str | Model, ...]

    @property
    def chunk(self) -> int:
        """How many configurations a part of the file holds."""
        return min(CHUNK, *(model.batch for model in get_all(self.models)))

    @property
    def key(self) -> str:
        """A hash that changes when anything does that a result depends on."""
        parts = [__version__, repr([dict(problem) for problem in self.problems])]
        parts += [repr(part) for part in (*get_all(self.models), *self.kernels)]
        parts += [f"{gpu.name} {gpu.fields}" for gpu in self.gpus]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def schema(kernels: Sequence[Counts]) -> pa.Schema:
    """Return the columns of the file; a parameter that a kernel lacks is null in its rows."""
    word = pa.dictionary(pa.int16(), pa.string())
    parameters: dict[str, pa.DataType] = {}
    for kernel in kernels:
        for name, values in kernel.space.values.items():
            whole = all(isinstance(value, int) for value in values)
            if not whole or name not in parameters:
                parameters[name] = pa.int64() if whole else pa.float64()
    return pa.schema(
        [("kernel", word), ("gpu", word), ("model", word)]
        + list(parameters.items())
        + [(name, pa.int32()) for name in ("threads", "blocks", "registers", "shared_bytes")]
        + [("warps_per_sm", pa.float32()), ("occupancy", pa.float32()), ("limited_by", word)]
        + [
            ("possible", pa.bool_()),
            ("cycles", pa.float64()),
            ("seconds", pa.float64()),
            ("bottleneck", word),
        ]
    )


def rows(
    kernel: Counts,
    gpu_names: Sequence[str],
    parameters: Mapping[str, np.ndarray],
    evaluation: Evaluation,
    columns: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    """Yield one batch a (GPU, model), configurations in order."""
    count = len(next(iter(parameters.values())))

    def word(names: Sequence[str], codes: np.ndarray | int) -> pa.DictionaryArray:
        codes = np.broadcast_to(np.asarray(codes, np.int16), count)
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), pa.array(names, pa.string()))

    for g, gpu in enumerate(gpu_names):
        common: dict[str, Any] = {name: values[g] for name, values in evaluation.resources.items()}
        common |= {name: getattr(evaluation, name)[g] for name in ("warps_per_sm", "occupancy", "possible")}
        common |= {"kernel": word([kernel.name], 0), "gpu": word([gpu], 0)}
        common["limited_by"] = word(occupancy.LIMITERS, evaluation.limiter[g])
        for model, forecast in evaluation.forecasts.items():
            row = common | dict(parameters) | {"model": word([model], 0)}
            row |= {"cycles": forecast.cycles[g], "seconds": forecast.seconds[g]}
            row["bottleneck"] = word(forecast.terms, forecast.bottleneck[g])
            arrays = [
                pa.array(row[field.name]).cast(field.type)
                if field.name in row
                else pa.nulls(count, field.type)
                for field in columns
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=columns)


def sweep(job: SweepJob, out: Path, progress: Progress = silent) -> int:
    """Write the file; return the number of rows. `progress` is opened for each kernel, told of what is done.

    **Raises:** DseError if `out` is no .parquet file or cannot be written.
    """
    if out.suffix.lower() != ".parquet":
        raise DseError(f"{out}: suffix: found {out.suffix or 'no suffix'!r}, expected .parquet")
    columns = schema(job.kernels)
    folder = out.with_name(out.name + ".parts")
    names = [gpu.name for gpu in job.gpus]
    with replacing(out) as temporary:
        _begin(folder, job.key)
        gpus = stack([gpu.gpu for gpu in job.gpus])
        parts = []
        for k, (kernel, problem) in enumerate(zip(job.kernels, job.problems, strict=True)):
            parameters = kernel.space.configurations(problem)
            total = len(next(iter(parameters.values())))
            with progress(f"Sweeping {kernel.name}", total) as advance:
                for c, block in enumerate(chunks(parameters, job.chunk)):
                    part = folder / f"{k:03}-{c:06}.parquet"
                    parts.append(part)
                    if not part.exists():
                        evaluation = evaluate(kernel, job.models, gpus, block, problem)
                        _write(part, rows(kernel, names, block, evaluation, columns), columns)
                    advance(len(next(iter(block.values()))))
        count = 0
        with pq.ParquetWriter(temporary, columns, compression="zstd") as writer:
            for part in parts:
                for batch in pq.ParquetFile(part).iter_batches(CHUNK):
                    writer.write_batch(batch.cast(columns))
                    count += batch.num_rows
    shutil.rmtree(folder)
    return count


def _write(path: Path, batches: Iterable[pa.RecordBatch], columns: pa.Schema) -> None:
    with replacing(path) as half, pq.ParquetWriter(half, columns, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)


def _job(note: Path) -> Any:
    try:
        return json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise DseError(f"{note}: found no note of a sweep, expected one; move the folder away") from None


def _begin(folder: Path, key: str) -> None:
    """Open the folder of parts: what an interrupted run of the same job left, or an empty one."""
    note = folder / "job.json"
    if folder.exists():
        if not note.exists() and any(folder.iterdir()):
            raise DseError(f"{folder}: found files of another origin, expected none; move the folder away")
        if note.exists() and _job(note) == {"job": key}:
            return
        shutil.rmtree(folder)
    folder.mkdir()
    with replacing(note) as half:
        half.write_text(json.dumps({"job": key}))

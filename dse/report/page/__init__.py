"""A page that works offline: linked figures and a table of configurations."""

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import numpy as np

from dse.core.version import __version__
from dse.data.results.space import MEASURED, NO_GPU, PREDICTED, REFITTED, Results, ResultSpace
from dse.report.numbers import for_json
from dse.report.page.pack import packed

MOST = 100_000  # configurations on a page
BINS = 24  # of the small histogram of each space
SCRIPTS = ("data.js", "state.js", "plot.js", "charts.js", "table.js", "main.js")


@dataclass(frozen=True)
class Roofline:
    """Positions of a space's configurations on a roofline, or the reason for their absence."""

    roofs: Mapping[str, float] = field(default_factory=dict)  # of the GPU: instructions and bytes a second
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)  # thread_instructions, dram_bytes, [L]
    note: str = ""
    reason: str = ""


def page(
    results: Results,
    importance: Sequence[Mapping[str, Mapping[str, tuple[float, float]]]],
    rooflines: Sequence[Roofline],
    first_model: str = "",
    most: int = MOST,
) -> str:
    """Return the page: HTML with embedded data, style and script.

    `importance` and `rooflines` have an entry for each space of `results`. With more than `most`
    configurations, the fastest and a random sample of the others are shown, with a note.
    """
    total = sum(space.count for space in results.spaces)
    notes = list(results.notes)
    content = {
        "about": _about(results, total),
        "model": first_model,
        "spaces": [],
        "scores": [for_json(row) for row in results.scores],
        "notes": notes,
    }
    names = [(space.kernel, space.gpu, space.size) for space in results.spaces]
    limits = divided([space.count for space in results.spaces], most)
    for space, shares, roofline, limit in zip(results.spaces, importance, rooflines, limits, strict=True):
        name = f"{space.kernel}, {space.size}" if space.size else space.kernel
        if names.count((space.kernel, space.gpu, space.size)) > 1:
            name = f"{name} ({space.source})"
        columns = {**roofline.columns}
        rows = _chosen(space, limit)
        if len(rows) < space.count:
            columns = {name: values[rows] for name, values in columns.items()}
            notes.append(
                f"{space.kernel} on {space.gpu}: {len(rows):,} of {space.count:,} configurations are "
                "shown, the fastest and a random sample. Importance and the overview cover all."
            )
        head = {
            "kernel": name,
            "gpu": space.gpu,
            "count": space.count,
            "shown": len(rows),
            "parameters": list(space.parameters),
            "fixed": dict(space.fixed),
            "models": list(space.forecasts),
            "importance": {
                model: {name: {"first": first, "total": total} for name, (first, total) in by_name.items()}
                for model, by_name in shares.items()
            },
            "roofline": {"note": roofline.note, "reason": roofline.reason}
            | ({"roofs": dict(roofline.roofs)} if roofline.roofs else {}),
            "summary": {model: _summary(columns) for model, columns in space.forecasts.items()},
        }
        content["spaces"].append(for_json(head) | packed(space.rows(rows), columns))
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    folder = files("dse.report.page")
    script = "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in SCRIPTS)
    parts = {
        "title": html.escape(_title(results)),
        "version": __version__,
        "style": folder.joinpath("style.css").read_text(encoding="utf-8"),
        "data": text.replace("<", "\\u003c"),  # </script> in a name would end it
        "script": script,
    }
    whole = folder.joinpath("page.html").read_text(encoding="utf-8")
    pieces = whole.split("{")
    filled = [pieces[0]]
    for piece in pieces[1:]:
        name, _, rest = piece.partition("}")
        filled += [parts[name], rest]
    return "".join(filled)


def _title(results: Results) -> str:
    kernels = list(dict.fromkeys(space.kernel for space in results.spaces))
    gpus = list(dict.fromkeys(space.gpu for space in results.spaces))
    if not kernels:
        return "How well models rank"
    named = kernels[0] if len(kernels) == 1 else f"{', '.join(kernels[:-1])} and {kernels[-1]}"
    if len(kernels) > 4:
        named = f"{len(kernels)} kernels"
    if gpus == [NO_GPU]:
        return named
    return f"{named} on {gpus[0] if len(gpus) == 1 else f'{len(gpus)} GPUs'}"


def _about(results: Results, total: int) -> str:
    models = {model for space in results.spaces for model in space.forecasts} - {
        MEASURED,
        PREDICTED,
        REFITTED,
    }
    sources = list(dict.fromkeys(space.source for space in results.spaces))
    parts = [f"{total:,} configurations"] if total else []
    parts += [f"{len(models)} models" if len(models) > 1 else f"model {next(iter(models))}"] if models else []
    parts += [f"from {', '.join(sources)}"] if sources else []
    return f"{', '.join(parts)}. Written by dse {__version__}." if parts else f"Written by dse {__version__}."


def divided(counts: Sequence[int], most: int) -> list[int]:
    """Divide `most` among spaces: small ones are kept whole, large ones get equal parts of the rest."""
    limits, left = [0] * len(counts), most
    for done, i in enumerate(sorted(range(len(counts)), key=lambda i: counts[i])):
        limits[i] = min(counts[i], left // (len(counts) - done))
        left -= limits[i]
    return limits


def _chosen(space: ResultSpace, most: int) -> np.ndarray:
    """Indices of the configurations shown: half of them the fastest, the others random."""
    most = max(most, 1)
    if space.count <= most:
        return np.arange(space.count)
    times = [columns["time_s"] for columns in space.forecasts.values()]
    order = np.argsort(times[0], kind="stable") if times else np.arange(space.count)
    others = np.random.default_rng(0).permutation(order[most // 2 :])[: most - most // 2]
    return np.sort(np.concatenate([order[: most // 2], others]))


def _summary(columns: Mapping[str, np.ndarray]) -> dict[str, Any] | None:
    """The overview's summary of a model's times; None without any."""
    times = columns["time_s"]
    known = np.log(times[np.isfinite(times) & (times > 0)])
    if not len(known):
        return None
    first = int(np.nanargmin(np.where(times > 0, times, np.nan)))
    histogram, _ = np.histogram(known, BINS, (known.min(), max(known.max(), known.min() + 1e-6)))
    return {
        "fastest_s": float(times[first]),
        "slowest_s": float(np.exp(known.max())),
        "bottleneck": columns["bottleneck"][first] if "bottleneck" in columns else None,
        "histogram": histogram.tolist(),
    }

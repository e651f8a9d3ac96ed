"""Errors of all models on the cycles that the TEG paper measured on a GT200, its Tables 2 to 5.

The package has the paper's numbers and the reconstructed kernels (docs/teg.md). TEG gets their traces, other
models descriptions with the traces' counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dse import kernels
from dse.accuracy import markdown
from dse.core.precision import in_64_bits
from dse.core.progress import Progress, silent
from dse.evaluate.chunks import evaluate
from dse.hardware import gpus
from dse.models import MODELS
from dse.models.protocol import Model
from dse.reproduce import papers
from dse.simulator import teg
from dse.simulator.case import trace_text


@dataclass(frozen=True)
class PaperTable:
    """One table of the paper, with its kernel and effects."""

    number: int
    title: str
    kernel: str
    fixed: dict[str, int]  # parameters
    without: str = ""  # the effect that TEG leaves out

    def printed(self) -> dict[str, np.ndarray]:
        """Return the printed columns: `warps`, `measured_cycles` and `predicted_cycles`."""
        rows = papers.table(f"teg_table_{self.number}")
        return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}

    def trace(self) -> str:
        """Return the trace of its kernel, as text."""
        return kernels.find(self.kernel).with_name(trace_text.FILE).read_text(encoding="utf-8")

    def cycles(
        self, progress: Progress = silent, models: Mapping[str, Model] = MODELS
    ) -> dict[str, np.ndarray]:
        """Predict the cycles of each number of warps by TEG and by `models`."""
        warps = self.printed()["warps"].astype(int)
        description = kernels.load(self.kernel)
        gpu = gpus.stack([gpus.load("gtx-280", np.float64).gpu])
        parameters = {name: np.full(len(warps), value) for name, value in self.fixed.items()}
        parameters |= {"warps_per_sm": warps}
        parameters = {name: parameters[name] for name in description.space.names}
        result = evaluate(description, models, gpu, parameters, progress=progress)
        cycles = {name: result.forecasts[name].cycles[0] for name in models}
        effects = teg.Effects.without(self.without) if self.without else None
        trace = trace_text.parse(self.trace())
        return cycles | {"teg": teg.cycles(trace, warps.tolist(), effects=effects)}


TABLES = (
    PaperTable(2, "matmul, bank conflicts", "matmul_abt", {"padding": 0}),
    PaperTable(3, "matmul, none", "matmul_abt", {"padding": 1}, "conflicts"),
    PaperTable(4, "lattice QCD, uncoalesced", "hopping_aos", {}),
    PaperTable(5, "lattice QCD, coalesced", "hopping_soa", {}),
)


def cells(
    progress: Progress = silent,
    tables: Sequence[PaperTable] = TABLES,
    models: Mapping[str, Model] = MODELS,
) -> list[dict[str, Any]]:
    """Score each cell: a row for each table, model and number of warps."""
    rows = []
    with in_64_bits():
        for table in tables:
            paper = table.printed()
            measured = paper["measured_cycles"]
            cycles_by = {"teg, as printed": paper["predicted_cycles"]} | table.cycles(progress, models)
            for model, predictions in cycles_by.items():
                for warps, cycles, real in zip(paper["warps"], predictions, measured, strict=True):
                    rows.append(
                        {
                            "table": table.number,
                            "model": model,
                            "warps": int(warps),
                            "measured_cycles": float(real),
                            "predicted_cycles": float(cycles),
                            "error_percent": 100.0 * float(cycles / real - 1.0),
                        }
                    )
    return rows


def means(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return mean absolute errors in percent: a row for each model, a column for each table, and `all`."""
    lines, tables = [], [table for table in TABLES if any(row["table"] == table.number for row in rows)]
    for model in dict.fromkeys(row["model"] for row in rows):
        of_model = [row for row in rows if row["model"] == model]
        by_table = {
            f"Table {table.number}: {table.title}": [
                abs(row["error_percent"]) for row in of_model if row["table"] == table.number
            ]
            for table in tables
        }
        by_table["all"] = [error for errors in by_table.values() for error in errors]
        lines.append({"model": model} | {name: float(np.mean(errors)) for name, errors in by_table.items()})
    return lines


def page(rows: Sequence[dict[str, Any]]) -> str:
    """Write mean errors, a line for each model, in Markdown; then each cell of TEG's."""
    errors = means(rows)
    names = [name for name in errors[0] if name != "model"]
    of_models = markdown.table(
        ("model", *names), [[line["model"], *(f"{line[name]:.1f}" for name in names)] for line in errors]
    )
    of_teg = markdown.table(
        ("table", "warps", "measured", "predicted", "error [%]"),
        [
            [
                f"{row['table']}",
                f"{row['warps']}",
                f"{row['measured_cycles']:,.0f}",
                f"{row['predicted_cycles']:,.0f}",
                f"{row['error_percent']:+.1f}",
            ]
            for row in rows
            if row["model"] == "teg"
        ],
        words=0,
    )
    return f"{of_models}\n\nCycles by `teg`, cell by cell:\n\n{of_teg}"

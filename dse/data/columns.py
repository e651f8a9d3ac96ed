"""The columns of results: the same name for a quantity in every command, file and Python result.

Names end with their unit, if any: `time_s`, `shared_bytes`. Problem sizes and tuning parameters keep their
own names. docs/columns.md is generated from here.
"""

from typing import NamedTuple


class Column(NamedTuple):
    """Unit and meaning of a result column."""

    unit: str  # "1" for a plain number, "" for words
    meaning: str


COLUMNS: dict[str, Column] = {
    "rank": Column("1", "place in the order, from 1, the fastest"),
    "number": Column("1", "number of the measurement in a tuning run, from 1"),
    "kernel": Column("", "name of the kernel"),
    "gpu": Column("", "name of the GPU, as `dse gpus` has it"),
    "model": Column("", "name of the model, as `dse models` has it"),
    "assumed": Column("", "values missing in the kernel's file, and the defaults used"),
    "threads": Column("1", "threads of a block"),
    "blocks": Column("1", "blocks of the launch"),
    "registers": Column("1", "registers of a thread"),
    "shared_bytes": Column("B", "shared memory of a block"),
    "warps_per_sm": Column("1", "warps resident on an SM at the same time"),
    "occupancy": Column("1", "resident warps as a share of the SM's maximum, 0 to 1"),
    "limited_by": Column("", "resource that limits the resident blocks, or why the launch cannot run"),
    "possible": Column("", "whether the launch can run at all"),
    "cycles": Column("cycles", "predicted time of the launch, in cycles of the GPU's clock"),
    "time_s": Column("s", "predicted time of the launch; infinite (JSON: null) if it cannot run"),
    "low_s": Column("s", "lower end of the 95 % interval of the time"),
    "high_s": Column("s", "upper end of that interval"),
    "library_s": Column("s", "predicted time of the vendor's library for the same product"),
    "layer_s": Column("s", "predicted time of a layer of experts, routing to the sum of its outputs"),
    "valid": Column("1", "configurations that satisfy the constraints"),
    "count": Column("1", "valid configurations in this row"),
    "from_s": Column("s", "lower end of a bin of times"),
    "to_s": Column("s", "upper end of the bin; infinite (JSON: null) for the last"),
    "refitted_s": Column("s", "predicted time, corrected by measured times"),
    "bottleneck": Column("", "the part of the GPU that takes most of the predicted time"),
    "measured_s": Column("s", "measured time; empty if not measured, or failed"),
    "status": Column("", "`ok` if the measurement succeeded, else what failed"),
    "fastest_s": Column("s", "fastest time measured so far"),
    "chance_fastest": Column("1", "probability that no other configuration is faster, 0 to 1"),
    "chance_near": Column("1", "probability to be within 5 % of the fastest, 0 to 1"),
    "chance_runs": Column("1", "probability to compile and launch, where that is estimated, 0 to 1"),
    "expected_s": Column("s", "time expected from the prediction and recorded times on other GPUs"),
    "optimum_s": Column("s", "best predicted time of the whole space, if it is small enough to enumerate"),
    "above_optimum_percent": Column("%", "how much slower the best configuration found is than the optimum"),
    "field": Column("", "field of a GPU file"),
    "unit": Column("", "unit of that field"),
    "catalogue": Column("", "its value before the fit"),
    "fitted": Column("", "its value after the fit"),
    "spread_percent": Column("%", "standard deviation of the fitted value"),
    "determined": Column("", "whether the data determine it: no if they hardly narrow it, or as noted"),
    "note": Column("", "why a fitted value is doubtful: at a physical bound, or far from its prior"),
    "data": Column("", "configurations that a fit is scored on: fitted, or held out"),
    "mape_before_percent": Column("%", "mean absolute error of the times before the fit"),
    "mape_unbounded_percent": Column("%", "the same after a fit without physical bounds"),
    "spearman_before": Column("1", "rank correlation before the fit"),
    "warps": Column("1", "warps resident on an SM"),
    "throughput": Column("1/cycle", "warps that one SM finishes in a cycle"),
    "instructions": Column("1/cycle", "warp instructions that one SM finishes in a cycle"),
    "configurations": Column("1", "configurations compared"),
    "failed": Column("1", "compared configurations whose measurement failed"),
    "unpredicted": Column("1", "compared configurations without a predicted time"),
    "spearman": Column("1", "rank correlation of predicted and measured times, -1 to 1"),
    "mape_percent": Column("%", "mean absolute error of the predicted times"),
    "mape_shape_percent": Column("%", "the same, after subtracting a straight line over occupancy"),
    "top_1": Column("1", "best measured time, over that of the first one predicted: 1 is the optimum"),
    "top_10": Column("1", "the same, with the best of the first ten"),
    "top_1_percent": Column("1", "the same, with the best of the first 1 %"),
    "top_5_percent": Column("1", "the same, with the best of the first 5 %"),
    "top_10_percent": Column("1", "the same, with the best of the first 10 %"),
}

SHORT = {"time": "time_s", "shared": "shared_bytes"}  # short names accepted for a column
SUFFIXES = {"_s": "s", "_bytes": "B", "_percent": "%"}  # of names, for units


def of_model(model: str) -> str:
    """Name the column of the seconds that a further model predicts: `mwp_cwp_s`."""
    return f"{model.replace('-', '_').replace(' ', '_')}_s"


def unit(name: str) -> str | None:
    """Return the unit of a column; None if it is not in COLUMNS."""
    return COLUMNS[name].unit if name in COLUMNS else None


def heading(name: str, its_unit: str | None = None) -> tuple[str, str]:
    """Split a column's name into the heading of a table and its unit: `time_s` into `time` and s.

    `its_unit` is the unit of a column not in COLUMNS. "1" means that no unit is shown.
    """
    shown = its_unit or unit(name) or "1"
    for suffix, suffix_unit in SUFFIXES.items():
        if shown == suffix_unit and name.endswith(suffix):
            return name.removesuffix(suffix), shown
    return name, "1" if shown == name else shown


def metadata(name: str, its_unit: str | None = None) -> dict[str, str]:
    """Return the Parquet metadata of a column: `unit` and `meaning`, if known."""
    column = COLUMNS.get(name, Column("", ""))
    notes = {"unit": its_unit or column.unit, "meaning": column.meaning}
    return {key: text for key, text in notes.items() if text}

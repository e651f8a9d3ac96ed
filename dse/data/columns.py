"""The columns of results: one name for a quantity, in every command, file and Python result.

A name says its unit at its end where there is one: `time_s`, `shared_bytes`. Problem sizes and tuning
parameters keep their own names. docs/columns.md is written from here.
"""

from typing import NamedTuple


class Column(NamedTuple):
    """Unit and meaning of a result column."""

    unit: str  # as people write it; "1" of a plain number, "" of words
    meaning: str


COLUMNS: dict[str, Column] = {
    "rank": Column("1", "place in the order, from 1, the fastest"),
    "number": Column("1", "which measurement of a tuning run it is, from 1"),
    "kernel": Column("", "name of the kernel"),
    "gpu": Column("", "name of the GPU, as `dse gpus` has it"),
    "model": Column("", "name of the model, as `dse models` has it"),
    "assumed": Column("", "values that the kernel's file leaves open, and their stand-ins"),
    "threads": Column("1", "threads of a block"),
    "blocks": Column("1", "blocks of the launch"),
    "registers": Column("1", "registers of a thread"),
    "shared_bytes": Column("B", "shared memory of a block"),
    "warps_per_sm": Column("1", "warps that are resident on an SM at the same time"),
    "occupancy": Column("1", "those warps as a share of the most that an SM holds, 0 to 1"),
    "limited_by": Column("", "what keeps more blocks from an SM, or why the launch cannot run"),
    "possible": Column("", "whether the launch can run at all"),
    "cycles": Column("cycles", "predicted time of the launch, in cycles of the GPU's clock"),
    "time_s": Column("s", "predicted time of the launch; infinite (JSON: null) if it cannot run"),
    "low_s": Column("s", "lower end of the interval that is to hold the time in 95 % of cases"),
    "high_s": Column("s", "upper end of that interval"),
    "library_s": Column("s", "what the vendor's library takes for the same product, predicted"),
    "valid": Column("1", "configurations that fulfil the constraints"),
    "count": Column("1", "of them, those of this row"),
    "from_s": Column("s", "lower end of a bin of times"),
    "to_s": Column("s", "upper end of it; infinite (JSON: null) of the last"),
    "refitted_s": Column("s", "predicted time, corrected by the measured ones"),
    "bottleneck": Column("", "the part of the GPU that takes most of the predicted time"),
    "measured_s": Column("s", "measured time; empty if it was not measured, or failed"),
    "status": Column("", "`ok` if the measurement worked, else what failed"),
    "fastest_s": Column("s", "fastest time measured until then"),
    "chance_fastest": Column("1", "probability that no other configuration is faster, 0 to 1"),
    "chance_near": Column("1", "probability to be within 5 % of the fastest, 0 to 1"),
    "chance_runs": Column("1", "probability to compile and launch, where that is estimated, 0 to 1"),
    "expected_s": Column("s", "time by the prediction and by recorded times on other GPUs"),
    "optimum_s": Column(
        "s", "best predicted time of the whole space, where it is small enough to look at all"
    ),
    "above_optimum_percent": Column("%", "how much longer the best one found takes than the optimum"),
    "field": Column("", "field of a GPU file"),
    "unit": Column("", "unit of that field"),
    "catalogue": Column("", "its value before the fit"),
    "fitted": Column("", "its value after the fit"),
    "spread_percent": Column("%", "standard deviation of the fitted value"),
    "determined": Column("", "whether the data determine it: no if they hardly narrow it, or as noted"),
    "note": Column("", "why a fitted value is doubted: at a physical bound, or many prior widths off"),
    "data": Column("", "on which configurations a fit is scored: those fitted, or some held out"),
    "mape_before_percent": Column("%", "mean absolute error of the times before the fit"),
    "mape_unbounded_percent": Column("%", "the same after a fit without physical bounds"),
    "spearman_before": Column("1", "rank correlation before the fit"),
    "warps": Column("1", "warps resident on an SM"),
    "throughput": Column("1/cycle", "warps that one SM finishes in a cycle"),
    "instructions": Column("1/cycle", "warp instructions that one SM finishes in a cycle"),
    "configurations": Column("1", "configurations compared"),
    "failed": Column("1", "of them, measured without success"),
    "unpredicted": Column("1", "of them, without a predicted time"),
    "spearman": Column("1", "rank correlation of predicted and measured times, -1 to 1"),
    "mape_percent": Column("%", "mean absolute error of the predicted times"),
    "mape_shape_percent": Column("%", "what is left of it without a straight line over occupancy"),
    "top_1": Column("1", "best measured time, over that of the first one predicted: 1 is the optimum"),
    "top_10": Column("1", "the same, with the best of the first ten"),
    "top_1_percent": Column("1", "the same, with the best of the first 1 %"),
    "top_5_percent": Column("1", "the same, with the best of the first 5 %"),
    "top_10_percent": Column("1", "the same, with the best of the first 10 %"),
}

SHORT = {"time": "time_s", "shared": "shared_bytes"}  # what people type for a column
SUFFIXES = {"_s": "s", "_bytes": "B", "_percent": "%"}  # that say the unit at the end of a name


def of_model(model: str) -> str:
    """Name the column of predicted seconds by one more model beside the first: `mwp_cwp_s`."""
    return f"{model.replace('-', '_').replace(' ', '_')}_s"


def unit(name: str) -> str | None:
    """Return the unit of a column, None of one that is not of the vocabulary."""
    return COLUMNS[name].unit if name in COLUMNS else None


def heading(name: str, its_unit: str | None = None) -> tuple[str, str]:
    """Split a column's name for a table that people read: `time_s` into `time` and its unit s.

    `its_unit` is that of a column which is not of the vocabulary. The unit is "1" where none is to be shown.
    """
    known = its_unit or unit(name) or "1"
    for suffix, same in SUFFIXES.items():
        if known == same and name.endswith(suffix):
            return name.removesuffix(suffix), known
    return name, "1" if known == name else known


def metadata(name: str, its_unit: str | None = None) -> dict[str, str]:
    """Return what a Parquet file notes of a column: `unit` and `meaning`, where they are known."""
    known = COLUMNS.get(name)
    notes = {"unit": its_unit or (known.unit if known else ""), "meaning": known.meaning if known else ""}
    return {key: text for key, text in notes.items() if text}

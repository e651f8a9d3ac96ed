"""An Optuna study that tries the best predicted configurations first."""

from pathlib import Path

import optuna
import pyarrow.csv

from dse.bridges.optuna import warm_start

TIMES = pyarrow.csv.read_csv(Path(__file__).with_name("data") / "transpose_a100.csv").to_pylist()
NAMES = ("tile", "rows", "shared", "padding")
MEASURED = {tuple(row[name] for name in NAMES): row["time_ms"] for row in TIMES}


def objective(trial: optuna.Trial) -> float:
    values = {name: sorted({row[name] for row in TIMES}) for name in NAMES}
    chosen = tuple(trial.suggest_categorical(name, values[name]) for name in NAMES)
    return MEASURED.get(chosen, float("inf"))  # you would measure here


def main() -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
    warm_start(study, "transpose", "a100", count=5)
    study.optimize(objective, 10)
    print(f"{min(MEASURED.values()) / study.best_value:.2f} of the best with 10 measurements")


if __name__ == "__main__":
    main()

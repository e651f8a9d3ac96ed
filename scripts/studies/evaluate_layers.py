"""Accuracy of predicted times of layers of experts: `evaluate_layers.py DIR [--gpu NAME] [--train DIR2 ...]
[--json]`.

DIR has tables of layers with one configuration each. Constants are the package's; `--train` fits them for
each GPU, to all tables of DIR and of the named folders except that GPU's rows.
"""

import numpy as np
from ending import run_script
from evaluate_candidates import TOKENS, main, single
from matrix_fits.timed import Timed


def regimes(table: Timed) -> dict[str, np.ndarray]:
    """Return rows by kind of operands, number of tokens, alignment to 16, and routing."""
    first, second = zip(*table.problems, strict=True)
    tokens = np.array([product.tokens for product in first])
    kinds = np.array([product.operands for product in first])
    skewed = np.array([product.routing == "skewed" for product in first])
    unaligned = np.array([product.depth % 16 != 0 for product in second])
    by_problem = {kind: kinds == kind for kind in sorted(set(kinds.tolist()))}
    for low, high in zip((0, *TOKENS), (*TOKENS, np.inf), strict=True):
        by_problem[f"tokens {low + 1} to {high:g}"] = (tokens > low) & (tokens <= high)
    by_problem |= {"unaligned": unaligned, "even": ~skewed, "skewed": skewed}
    return {name: rows[table.problem] for name, rows in by_problem.items()}


if __name__ == "__main__":
    run_script(
        lambda: main(lambda table: not single(table), regimes, "Times of layers of experts, predicted")
    )

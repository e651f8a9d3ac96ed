"""How well times of layers of experts are predicted: `evaluate_layers.py DIR [--gpu NAME] [--train DIR2 ...]
[--json]`.

DIR has tables of layers as they ran, a configuration each. Constants are the package's; `--train` fits them
for each GPU, to all tables of DIR and of the folders named but for that GPU's rows.
"""

import sys

import numpy as np
from evaluate_candidates import TOKENS, main, single

from dse.errors import DseError
from dse.explore.matrix.timed import Timed


def regimes(table: Timed) -> dict[str, np.ndarray]:
    """Kinds of operands, numbers of tokens, sizes that are no multiple of 16, how tokens meet experts."""
    first, second = ([one[place] for one in table.problems] for place in (0, 1))
    tokens = np.array([one.tokens for one in first])
    kinds = np.array([one.operands for one in first])
    skewed = np.array([one.routing == "skewed" for one in first])
    unaligned = np.array([one.depth % 16 != 0 for one in second])
    found = {kind: kinds == kind for kind in sorted(set(kinds.tolist()))}
    for low, high in zip((0, *TOKENS), (*TOKENS, np.inf), strict=True):
        found[f"tokens {low + 1} to {high:g}"] = (tokens > low) & (tokens <= high)
    found |= {"unaligned": unaligned, "even": ~skewed, "skewed": skewed}
    return {name: rows[table.problem] for name, rows in found.items()}


if __name__ == "__main__":
    try:
        main(lambda table: not single(table), regimes, "Times of layers of experts, predicted")
    except DseError as error:
        print(f"evaluate_layers.py: {error}", file=sys.stderr)
        sys.exit(2)

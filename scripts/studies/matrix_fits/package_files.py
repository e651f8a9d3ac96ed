"""What a fit writes into the package: the file of constants, and the shares of fast configurations."""

import csv
import io
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from dse.explore.matrix.prior import COLUMNS, Key, Prior, Tile, log_rows, tile_of
from dse.models.matrix.constants import ABOUT
from dse.models.matrix.problem import OPERANDS, Product

Configured = Iterable[tuple[str, Product, Sequence[Sequence[int]]]]  # GPU, product, best configurations


def constants_text(x: np.ndarray, spread: np.ndarray, source: str) -> str:
    """Format constants at x for the file; `spread` is that of x over fits that leave out a GPU."""
    lines = [
        "# Written by scripts/studies/evaluate_moe.py --write: its module constants.py says what each is.",
        "# spread: of the logarithm, over fits that leave an architecture out.",
        f"source = {json.dumps(source)}",
        "",
        "[constants]",
    ]
    for place, (name, about) in enumerate(ABOUT.items()):
        value, of_value = about.default * np.exp(about.spread * x[place]), about.spread * spread[place]
        lines.append(f'{name} = {{ value = {value:.5g}, unit = "{about.unit}", spread = {of_value:.2g} }}')
    return "\n".join(lines) + "\n"


def counted(cases: Configured) -> Prior:
    """Count the best configurations of cases."""
    number: dict[Key, int] = defaultdict(int)
    tiles: dict[Key, dict[Tile, float]] = defaultdict(lambda: defaultdict(float))
    groups: dict[tuple[int, int], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for gpu, product, configurations in cases:
        key = (gpu, OPERANDS[product.operands].weight_bytes, round(float(log_rows([product])[0])))
        number[key] += 1
        for tile in {tile_of(configuration) for configuration in configurations}:
            tiles[key][tile] += 1
        for configuration in configurations:
            groups[configuration[0], configuration[1]][configuration[3]] += 1.0 / len(configurations)
    return Prior(
        {key: {tile: count / number[key] for tile, count in shares.items()} for key, shares in tiles.items()},
        {
            size: {group: n / max(shares.values()) for group, n in shares.items()}
            for size, shares in groups.items()
        },
    )


def prior_text(prior: Prior, least: float = 0.0) -> str:
    """Format a prior as the CSV that `Prior.read` parses, without shares below `least`."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for (gpu, weight_bytes, rows), by_tile in sorted(prior.tiles.items()):
        for tile, share in sorted(by_tile.items()):
            if share >= least:
                key = "x".join(map(str, tile))
                writer.writerow([gpu, f"{weight_bytes:g}", rows, "tile", key, f"{share:.3g}"])
    for size, by_group in sorted(prior.groups.items()):
        for group, share in sorted(by_group.items()):
            key = "x".join(map(str, (*size, group)))
            writer.writerow(["", "", "", "group", key, f"{share:.3g}"])
    return out.getvalue()

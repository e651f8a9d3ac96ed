"""Format numbers for people: four digits, and one prefix for a whole column."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

# Prefixed units and their values, largest first; other units are shown unchanged.
PREFIXES = {
    "s": {"s": 1, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9},
    "Hz": {"GHz": 1e9, "MHz": 1e6, "kHz": 1e3, "Hz": 1},
    "B/s": {"TB/s": 1e12, "GB/s": 1e9, "MB/s": 1e6, "kB/s": 1e3, "B/s": 1},
    "B": {"GiB": 2**30, "MiB": 2**20, "KiB": 2**10, "B": 1},
}


def number(x: float) -> str:
    """Format with four significant digits; whole numbers in full, very large and small ones in exponents."""
    if not math.isfinite(x):
        return str(x)
    if isinstance(x, int) or (abs(x - round(x)) <= 1e-6 * abs(x) and abs(x) < 1e7):  # in single precision
        return str(round(x))
    if not 1e-4 <= abs(x) < 1e7:
        return f"{x:.3e}"
    return f"{x:.{max(0, 3 - math.floor(math.log10(abs(x))))}f}"


def scale(values: Sequence[Any], unit: str) -> tuple[str, float]:
    """Choose the prefixed unit for the median of `values`, in `unit`; return it and its value."""
    sizes = sorted(abs(x) for x in values if isinstance(x, int | float) and x and math.isfinite(x))
    if unit not in PREFIXES or not sizes:
        return unit, 1
    prefixed = list(PREFIXES[unit].items())
    return next((pair for pair in prefixed if sizes[len(sizes) // 2] >= pair[1]), prefixed[-1])


def json_text(x: Any) -> str:
    """Format a value as JSON without control characters, since names may be untrusted."""
    text = json.dumps(for_json(x), indent=2, ensure_ascii=False, allow_nan=False)
    return re.sub(
        r"[^\n -~]", lambda match: match[0] if match[0].isprintable() else json.dumps(match[0])[1:-1], text
    )


def for_json(x: Any) -> Any:
    """Convert a value as `plain`; infinity and NaN become None."""
    return _finite(plain(x))


def _finite(x: Any) -> Any:
    if isinstance(x, dict):
        return {key: _finite(value) for key, value in x.items()}
    if isinstance(x, list):
        return [_finite(value) for value in x]
    return None if isinstance(x, float) and not math.isfinite(x) else x


def plain(x: Any) -> Any:
    """Convert a value to Python's own types: arrays to lists, NumPy's and JAX's numbers to Python's."""
    if hasattr(x, "tolist"):
        x = x.tolist()
    if isinstance(x, Mapping):
        return {str(key): plain(value) for key, value in x.items()}
    if isinstance(x, list | tuple):
        return [plain(value) for value in x]
    return x if x is None or isinstance(x, bool | int | float) else str(x)

"""Tables of the pages."""

from collections.abc import Iterable, Sequence


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """Write a table in Markdown; all but the first `words` columns are aligned to the right."""
    rules = ["---"] * words + ["---:"] * (len(columns) - words)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (columns, rules, *rows))


def number(x: float | None) -> str:
    """Write a score: three digits, whole numbers from 100 on, nothing for None."""
    if x is None:
        return ""
    return f"{x:.0f}" if abs(x) >= 100 else f"{x:.3g}"

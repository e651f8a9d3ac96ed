"""Draw the pictures of docs/concepts.md: `draw_concepts.py [FOLDER]`, by default docs/figures.

Plain SVG, in colours that are legible in light and in dark mode.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs" / "figures"
INK, BLUE, ORANGE, GREY = "#7a7f87", "#3b82c4", "#c26d17", "#6f7882"


def rectangle(x: float, y: float, width: float, height: float, colour: str, opacity: float = 1.0) -> str:
    """A filled rectangle."""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3" fill="{colour}"'
        f' fill-opacity="{opacity:g}"/>'
    )


def text(x: float, y: float, words: str, anchor: str = "start", colour: str = INK) -> str:
    """A line of text."""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{colour}">{words}</text>'


def line(x1: float, y1: float, x2: float, y2: float, dashed: bool = False) -> str:
    """A thin line."""
    dashes = ' stroke-dasharray="4 3"' if dashed else ""
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{INK}"{dashes}/>'


def picture(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    """An SVG with a title for screen readers."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"'
        f' font-family="sans-serif" font-size="13"><title>{title}</title>'
    )
    return "\n".join([head, *parts, "</svg>", ""])


def pipe() -> str:
    """Instructions that enter a pipe every λ cycles, with results after Λ."""
    lam, late, left, parts = 70, 250, 90, []
    for number in range(4):
        x, y = left + number * lam, 40 + 34 * number
        parts += [rectangle(x, y, lam, 22, BLUE), rectangle(x + lam, y, late - lam, 22, BLUE, 0.25)]
        parts.append(text(left - 10, y + 16, f"warp {number}", "end"))
        parts.append(text(x + late + 6, y + 16, "result"))
    parts += [line(left, 20, left + lam, 20), text(left + lam / 2, 14, "λ", "middle")]
    parts += [line(left, 30, left, 190, True), line(left + lam, 30, left + lam, 190, True)]
    parts += [line(left, 184, left + late, 184), text(left + late / 2, 200, "Λ of warp 0", "middle")]
    parts += [line(left + late, 62, left + late, 190, True)]
    title = "A pipe takes one instruction every λ cycles; a result is there after Λ cycles"
    return picture(640, 210, title, parts)


def waves() -> str:
    """Blocks on SMs: waves one after the other, the last one not full."""
    parts, left, width = [], 70, 120
    for sm in range(4):
        y = 34 + 40 * sm
        parts.append(text(left - 10, y + 20, f"SM {sm}", "end"))
        for wave in range(3):
            for slot in range(2):
                block = wave * 8 + sm * 2 + slot
                if block < 19:
                    x, top = left + wave * (width + 8), y + slot * 16
                    parts.append(rectangle(x, top, width, 14, BLUE if wave < 2 else ORANGE))
                    parts.append(text(x + width / 2, top + 11, f"block {block}", "middle", "#ffffff"))
    for wave in range(3):
        words = "wave 2, the tail" if wave == 2 else f"wave {wave}"
        parts.append(text(left + wave * (width + 8) + width / 2, 22, words, "middle"))
    parts += [line(left, 200, left + 3 * (width + 8), 200), text(left + 3 * (width + 8) + 6, 204, "time")]
    return picture(520, 216, "19 blocks on four SMs with room for two each: two full waves and a tail", parts)


def phases() -> str:
    """Phases of a block between barriers."""
    parts, left = [], 80
    steps = 2 * [("load a tile", 110, GREY), ("compute", 90, BLUE)]
    for warp, delay in enumerate((0, 14, 6)):
        x, y = left, 34 + 34 * warp
        parts.append(text(left - 10, y + 16, f"warp {warp}", "end"))
        for words, width, colour in steps:
            parts.append(rectangle(x + delay / 2, y, width - 18 + delay / 2, 22, colour, 0.9))
            parts.append(text(x + delay / 2 + (width - 18) / 2, y + 16, words, "middle", "#ffffff"))
            x += width
    x = left
    for number, (_, width, _) in enumerate(steps):
        x += width
        parts.append(line(x - 5, 26, x - 5, 140, True))
        parts.append(text(x - 5, 156, "barrier" if number < 3 else "end", "middle"))
        parts.append(text(x - width / 2 - 5, 18, f"phase {number}", "middle"))
    return picture(520, 166, "Warps of a block meet at barriers; a phase lies between two of them", parts)


PICTURES = {"concept_pipe.svg": pipe, "concept_waves.svg": waves, "concept_phases.svg": phases}

if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    for name, draw in PICTURES.items():
        (folder / name).write_text(draw(), encoding="utf-8")

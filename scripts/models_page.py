"""What each model says of itself, as a page: `models_page.py [-o docs/models.md]`.

Prints Markdown, or writes it between the markers of the page.
"""

import argparse
import sys
from collections.abc import Iterable
from inspect import getdoc
from pathlib import Path

from dse.errors import DseError
from dse.files import fill
from dse.models import MODELS, module
from dse.models.about import ASPECTS


def markdown() -> str:
    """When to use which, what each takes into account, and a section a model."""
    return "\n\n".join(["## Which one", _uses(), "## What each takes into account", _aspects(), *_sections()])


def _uses() -> str:
    rows = ((f"[`{name}`](#{name})", module(name).ABOUT.use_when) for name in MODELS)
    return _table(("model", "use it"), rows)


def _aspects() -> str:
    rows = (
        (f"`{name}`", *("yes" if aspect in module(name).ABOUT.aspects else "" for aspect in ASPECTS))
        for name in MODELS
    )
    return _table(("model", *ASPECTS), rows)


def _sections() -> Iterable[str]:
    for name in MODELS:
        about, text = module(name).ABOUT, getdoc(module(name)) or ""
        yield f"## {name}"
        yield text
        yield f"**Reads:** {'; '.join(about.inputs)}."
        yield "**Equations:**"
        yield "\n".join(f"- {number}: `{formula}`" for number, formula in about.equations.items())
        yield f"**Leaves out:** {'; '.join(about.ignores)}."
        if about.differs:
            differs = "; ".join(f"{aspect} ({why})" for aspect, why in about.differs.items())
            yield f"**Not as Table 7 has it:** {differs}."
        yield f"**Source:** {about.source}."


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-o", "--out", type=Path, help="a page with the two markers, to be filled")
    options = parser.parse_args()
    if options.out is None:
        print(markdown())
        return 0
    try:
        fill(options.out, "models", markdown())
    except DseError as error:
        print(f"models_page.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What the models say of themselves, as a page: `models_page.py [FILE.md]` fills its section `models`.

Without a file it prints the section.
"""

import sys
from collections.abc import Iterable, Sequence
from inspect import getdoc
from pathlib import Path

from dse.core.files import fill
from dse.errors import DseError
from dse.models import MODELS, module
from dse.models.about import ASPECTS


def markdown() -> str:
    """Write when to use which model, what each takes into account, and a section a model."""
    declared = {name: module(name).ABOUT for name in MODELS}
    uses = [(f"[`{name}`](#{name})", about.use_when) for name, about in declared.items()]
    taken = [
        (f"`{name}`", *("yes" if aspect in about.aspects else "" for aspect in ASPECTS))
        for name, about in declared.items()
    ]
    parts = ["## Which one", _table(("model", "use it"), uses)]
    parts += ["## What each takes into account", _table(("model", *ASPECTS), taken)]
    for name, about in declared.items():
        parts += [f"## {name}", getdoc(module(name)) or "", f"**Reads:** {'; '.join(about.inputs)}."]
        equations = (f"- {number}: `{formula}`" for number, formula in about.equations.items())
        parts += ["**Equations:**", "\n".join(equations), f"**Leaves out:** {'; '.join(about.ignores)}."]
        if about.differs:
            differs = "; ".join(f"{aspect} ({why})" for aspect, why in about.differs.items())
            parts.append(f"**Not as Table 7 has it:** {differs}.")
        parts.append(f"**Source:** {about.source}.")
    return "\n\n".join(parts)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


if __name__ == "__main__":
    try:
        fill(Path(sys.argv[1]), "models", markdown()) if sys.argv[1:] else print(markdown())
    except DseError as error:
        print(f"models_page.py: {error}", file=sys.stderr)
        sys.exit(2)

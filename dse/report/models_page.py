"""What models say of themselves, as a page of Markdown."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class Declaration(Protocol):
    """What a model declares beside its docstring."""

    @property
    def source(self) -> str: ...
    @property
    def equations(self) -> Mapping[str, str]: ...
    @property
    def inputs(self) -> Sequence[str]: ...
    @property
    def ignores(self) -> Sequence[str]: ...
    @property
    def use_when(self) -> str: ...
    @property
    def aspects(self) -> Collection[str]: ...
    @property
    def differs(self) -> Mapping[str, str]: ...


Models = Mapping[str, tuple[str, Declaration]]  # by name: what the docstring says, and what is declared


def markdown(models: Models, aspects: Sequence[str]) -> str:
    """Write when to use which model, what each takes into account, and a section a model."""
    uses = [(f"[`{name}`](#{name})", about.use_when) for name, (_, about) in models.items()]
    taken = [
        (f"`{name}`", *("yes" if aspect in about.aspects else "" for aspect in aspects))
        for name, (_, about) in models.items()
    ]
    return "\n\n".join(
        [
            "## Which one",
            _table(("model", "use it"), uses),
            "## What each takes into account",
            _table(("model", *aspects), taken),
            *_sections(models),
        ]
    )


def _sections(models: Models) -> Iterable[str]:
    for name, (description, about) in models.items():
        yield f"## {name}"
        yield description
        yield f"**Reads:** {'; '.join(about.inputs)}."
        yield "**Equations:**"
        yield "\n".join(f"- {number}: `{formula}`" for number, formula in about.equations.items())
        yield f"**Leaves out:** {'; '.join(about.ignores)}."
        if about.differs:
            differs = "; ".join(f"{aspect} ({why})" for aspect, why in about.differs.items())
            yield f"**Not as Table 7 has it:** {differs}."
        yield f"**Source:** {about.source}."


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))

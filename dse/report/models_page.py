"""A page of Markdown made from what models say of themselves."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class Declaration(Protocol):
    """The description that a model declares beside its docstring."""

    @property
    def source(self) -> str:
        """Origin of the model."""
        ...

    @property
    def equations(self) -> Mapping[str, str]:
        """Its equations, by their number in the source."""
        ...

    @property
    def inputs(self) -> Sequence[str]:
        """The inputs that it reads."""
        ...

    @property
    def ignores(self) -> Sequence[str]:
        """The aspects that it leaves out."""
        ...

    @property
    def use_when(self) -> str:
        """Advice on its use."""
        ...

    @property
    def aspects(self) -> Collection[str]:
        """Aspects of performance that it takes into account."""
        ...

    @property
    def differs(self) -> Mapping[str, str]:
        """Differences from the table of aspects, with reasons."""
        ...


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

"""The description that each model gives of itself, `ABOUT`, from which commands and pages are made."""

from dataclasses import dataclass, field

# A model may take these into account: the rows of Lemeire et al., Table 7, in its order.
ASPECTS = (
    "ILP",
    "Λ_comp",
    "Λ_mem",
    "barriers",
    "more than 2 subsystems",
    "workgroups",
    "divergent warps",
    "issue limit",
    "scheduler",
)


@dataclass(frozen=True)
class About:
    """A model's source, equations, inputs and limits, declared beside it so that they change together.

    What the model does, its module's docstring says.
    """

    source: str
    equations: dict[str, str]  # by their number in the source
    inputs: tuple[str, ...]  # what it reads of the GPU, the kernel and the launch
    ignores: tuple[str, ...]
    use_when: str
    aspects: frozenset[str] = frozenset()  # of ASPECTS
    column: str = ""  # of Table 7 that speaks of this model; none where it does not list it
    differs: dict[str, str] = field(default_factory=dict)  # from that column: in what, and why
    bounded: bool = False  # whether no launch is faster than the roofline of the same counts

    def __post_init__(self) -> None:
        if unknown := (self.aspects | set(self.differs)) - set(ASPECTS):
            raise ValueError(f"aspects: found {sorted(unknown)}, expected some of {', '.join(ASPECTS)}")

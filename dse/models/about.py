"""The description of a model, `ABOUT`, from which commands and pages are generated."""

from dataclasses import dataclass, field

# Aspects that a model may take into account: the rows of Lemeire et al., Table 7, in its order.
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
    """A model's source, equations, inputs and limits, declared in its module so that they change together.

    The module's docstring describes the model itself.
    """

    source: str
    equations: dict[str, str]  # by their number in the source
    inputs: tuple[str, ...]  # fields of the GPU, the kernel and the launch that it reads
    ignores: tuple[str, ...]
    use_when: str
    aspects: frozenset[str] = frozenset()  # of ASPECTS
    column: str = ""  # of Table 7 for this model; "" if it is not listed
    differs: dict[str, str] = field(default_factory=dict)  # from that column: aspect to reason
    monotone: bool = False  # whether a faster pipe, memory or clock never increases the time
    bounded: bool = False  # whether no launch on all SMs is faster than the roofline of its counts

    def __post_init__(self) -> None:
        if unknown := (self.aspects | set(self.differs)) - set(ASPECTS):
            raise ValueError(f"aspects: found {sorted(unknown)}, expected some of {', '.join(ASPECTS)}")

"""A kernel's own tuning space replaced by that of a T1 problem."""

import re
from dataclasses import replace
from typing import Any

from dse.errors import DseError
from dse.kernels.description import Alias, Description
from dse.sources.t1 import T1Problem
from dse.space.expression import parse
from dse.space.space import Space


def with_space(description: Description, problem: T1Problem) -> Description:
    """The kernel with the parameters, values and conditions of a T1 problem in place of its own space.

    Names are matched as those of measured tables are: by one of the kernel's `spaces`, or as they stand. A
    parameter that the kernel does not know changes no prediction and is left out.

    **Raises:** DseError if the problem lacks a parameter of the kernel, or has a condition on one that the
    kernel does not know and that has several values.
    """
    own, sizes = description.space.names, dict(description.problem)

    def named(alias: Alias) -> tuple[dict[str, Any], list[str], list[str]]:
        """Values by our names; what is missing; what is unknown."""
        ours = {dict(alias.rename).get(name, name): values for name, values in problem.space.values.items()}
        ours |= {name: (value,) for name, value in alias.set}
        missing = [name for name in own if name not in ours]
        return ours, missing, [name for name in ours if name not in own and name not in sizes]

    aliases = [*description.spaces, Alias(description.name)]
    alias = min(aliases, key=lambda alias: sum(map(len, named(alias)[1:])))
    values, missing, unknown = named(alias)
    renamed = dict(alias.rename)
    constants = {name: values.pop(name) for name in [*unknown, *(set(values) & set(sizes))]}
    bound = set().union(*(each.names for each in problem.space.constraints)) | set(sizes)
    several = [name for name, choices in constants.items() if len(choices) > 1 and name in bound]
    if missing or several:
        wrong = (
            f"no {missing[0]!r}"
            if missing
            else f"several values of {several[0]!r} in a condition or as a size"
        )
        raise DseError(f"{problem.name}: parameters: found {wrong}, expected {', '.join(own)}")

    def ours(text: str) -> str:
        """A condition in our names, constants by their values."""
        known = renamed | {name: str(choices[0]) for name, choices in constants.items() if name not in sizes}
        return re.sub(r"[A-Za-z_]\w*", lambda word: known.get(word[0], word[0]), text)

    return replace(
        description,
        space=Space(
            {name: values[name] for name in own},
            tuple(
                parse(ours(each.text), f"{problem.name}: Conditions", {*own, *sizes})
                for each in problem.space.constraints
            ),
        ),
        problem=tuple((name, constants.get(name, (size,))[0]) for name, size in sizes.items()),
    )

"""Rules that were chosen while looking at a measured table: chosen.toml."""

from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from dse.accuracy.spaces import space_of
from dse.core.files import read_toml

FILE = Path(__file__).with_name("chosen.toml")
Fed = Literal["description", "source"]


class ChosenRule(BaseModel):
    """A rule, and the tables on which it was chosen, as SPACE/FILE."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    what: str
    tables: tuple[str, ...]
    fed: Fed | None = None  # the counts that it affects; None: both


@cache
def rules() -> tuple[ChosenRule, ...]:
    """Read all rules."""
    return tuple(ChosenRule.model_validate(entry) for entry in read_toml(FILE)["rules"])


def chosen_on(path: Path, fed: Fed) -> str:
    """List the rules that were chosen on a table for models with such counts; "" if there are none."""
    table = f"{space_of(path)}/{path.name.split('.')[0]}"
    return "; ".join(rule.what for rule in rules() if table in rule.tables and rule.fed in (None, fed))

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
    """A rule, and the tables that it was chosen on, as SPACE/FILE."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    what: str
    tables: tuple[str, ...]
    fed: Fed | None = None  # what it is about; None: both


@cache
def rules() -> tuple[ChosenRule, ...]:
    """Read all of them."""
    return tuple(ChosenRule.model_validate(entry) for entry in read_toml(FILE)["rules"])


def chosen_on(path: Path, fed: Fed) -> str:
    """Say which rules of models fed so were chosen on a table; "" where none was."""
    table = f"{space_of(path)}/{path.name.split('.')[0]}"
    return "; ".join(rule.what for rule in rules() if table in rule.tables and rule.fed in (None, fed))

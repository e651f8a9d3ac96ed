"""The facts of gpus/facts, and their selection for a card, for make_gpus.py.

Rows of findings.csv noted `REJECT:` never count, those noted `SUSPECT:` and the others of SECOND_CHOICE only
without alternatives; then measured before stated (data sheet, compiler), before modelled (simulator,
compiler's scheduling model), before fitted. Measurements that disagree give their median; data sheets that
disagree stop the script until a note rejects one.

A card without a row borrows a relative's. First measured and stated rows: the card itself, the relatives
that catalogue.csv names, cards of the same compute capability. Then modelled and fitted rows of those. Then
both kinds from the same architecture family (major compute capability; GCN, CDNA, RDNA), from older
generations, nearest first, and from newer ones. Among cards equally near: the better kind of row, then the
nearest number of SMs.
"""

import csv
import math
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import NamedTuple

from dse.hardware.gpus.rules import Rule

NVIDIA = ["Tesla", "Fermi", "Kepler", "Maxwell", "Pascal", "Volta", "Turing", "Ampere", "Ada", "Hopper"]
NVIDIA += ["Blackwell"]
AMD = ["GCN3", "GCN4", "GCN5", "GCN5.1", "CDNA", "CDNA2", "CDNA3", "CDNA4"]
AMD += ["RDNA1", "RDNA2", "RDNA3", "RDNA4"]  # a line of its own
SECOND_CHOICE = re.compile(
    r"^SUSPECT:|includes (index|address) arithmetic|rounded in the paper|^rounded$|launch figure|around"
)
KINDS = MEASURED, STATED, MODELLED, FITTED = ("measured", "stated", "modelled", "fitted")  # best first


class Origin(NamedTuple):
    """A row of sources.csv."""

    text: str
    kind: str  # how it knows: of everything measurable, or of latencies alone


@dataclass(frozen=True)
class Finding:
    """A row of findings.csv with its rows of parameters.csv and sources.csv."""

    parameter: str
    value: str
    unit: str
    sources: tuple[Origin, ...]
    note: str
    of: str  # the kind of parameter: word, stated, measurable, modelled or fitted

    @property
    def kind(self) -> str:
        """How its value is known: one of KINDS."""
        if self.of in (MODELLED, FITTED):
            return self.of
        kinds = {source.kind for source in self.sources}
        if MEASURED in kinds:
            measured = self.of == "measurable" and "driver-reported" not in self.note
            return MEASURED if measured else STATED
        return max(kinds, key=KINDS.index) if self.parameter.startswith("lat_") else STATED

    @property
    def provenance(self) -> str:
        """How its value is known, in the words of GPU files."""
        if self.kind == MODELLED:  # a simulator is tuned; a compiler's model is stated by its maker
            return STATED if self.parameter.startswith("sched_") else FITTED
        return self.kind

    @property
    def number(self) -> float:
        """The value; slots of four cycles become cycles."""
        return float(self.value) * (4 if self.unit == "4-cycle slots" else 1)


@dataclass(frozen=True)
class Value:
    """A value that goes into a file."""

    value: float
    unit: str
    source: str
    provenance: str = "derived"
    rule: str = ""
    follows: Rule | None = None  # set if a file states this instead of the value

    def follow(self, value: float, key: str, number: float, note: str = "", field: str = "") -> "Value":
        """Another value that follows from this one by a rule of GPU files."""
        return Value(
            value, "cycles", self.source, "derived", note, Rule(key, float(f"{number:.9g}"), field, note)
        )

    def like(self, field: str, note: str = "", times: float = 1) -> "Value":
        """This value, or a multiple of it that another field states."""
        return self.follow(times * self.value, "like", times, note, field)

    def derived(self, value: float, rule: str, unit: str = "cycles") -> "Value":
        """Another value derived from this one."""
        return Value(value, unit, self.source, "derived", rule)


def cite(rows: Iterable[Finding]) -> str:
    """List the sources of rows, each once."""
    return "; ".join(dict.fromkeys(source.text for row in rows for source in row.sources))


def tidy(x: float) -> str:
    """Format a number: four significant digits, or an integer."""
    return f"{x:.0f}" if x == round(x) else f"{float(f'{x:.4g}'):g}"


@dataclass(eq=False)
class Card:
    """A card: its findings by parameter, and all the facts, to borrow from."""

    key: str
    rows: dict[str, list[Finding]]
    relatives: list[str]  # boards with the same chip first, then stand-ins
    facts: "Facts"
    _best: dict[tuple[str, ...], list[Finding]] = field(default_factory=dict)

    @property
    def others(self) -> dict[str, "Card"]:
        """All cards, itself too."""
        return self.facts.cards

    def cite(self, keys: str) -> str:
        """The sources of these keys, in words."""
        return "; ".join(source.text for source in self.facts.sources_of(keys))

    def best(self, *parameters: str) -> list[Finding]:
        """Return the rows of the best kind, of the first of `parameters` that has one."""
        if parameters not in self._best:
            self._best[parameters] = self._find(parameters)
        return self._best[parameters]

    def _find(self, parameters: tuple[str, ...]) -> list[Finding]:
        rows = [row for parameter in parameters for row in self.rows.get(parameter, [])]
        rows = [row for row in rows if not SECOND_CHOICE.search(row.note)] or rows
        kind = min((row.kind for row in rows), key=KINDS.index, default=None)
        rows = [row for row in rows if row.kind == kind]
        return [row for row in rows if row.parameter == rows[0].parameter]

    def text(self, parameter: str) -> str:
        """A word, '' if there is none."""
        words = {row.value for row in self.best(parameter)}
        if len(words) > 1:
            sys.exit(f"{self.key}: {parameter}: sources disagree: {', '.join(sorted(words))}")
        return words.pop() if words else ""

    def own(self, *parameters: str, unit: str = "cycles") -> Value | None:
        """A number from the card's own rows."""
        rows = self.best(*parameters)
        if not rows:
            return None
        numbers = sorted({row.number for row in rows})
        if len(numbers) > 1 and rows[0].kind != MEASURED:
            sys.exit(f"{self.key}: {rows[0].parameter}: sources disagree: {', '.join(map(tidy, numbers))}")
        doubts = [note for row in rows if (note := row.note.partition(";")[0]).startswith("SUSPECT:")]
        source = cite(rows) + "".join(f" ({note})" for note in doubts)
        rule = f"median of {', '.join(map(tidy, numbers))}" if len(numbers) > 1 else ""
        return Value(median(numbers), unit, source, rows[0].provenance, rule)

    def need(self, *parameters: str, unit: str = "cycles") -> Value:
        """Do as `own`, and stop the script if there is no number."""
        value = self.own(*parameters, unit=unit)
        if value is None:
            sys.exit(f"{self.key}: no row for {' or '.join(parameters)}")
        return value

    @cached_property
    def capability(self) -> str:
        """Compute capability, '' on AMD."""
        return self.text("compute_capability")

    @cached_property
    def table(self) -> dict[str, str]:
        """Its row of the capability table."""
        return self.facts.capabilities.get(self.capability, {})

    @cached_property
    def amd(self) -> bool:
        """Whether it is AMD's."""
        return not self.capability

    @cached_property
    def target(self) -> str:
        """Compute capability, or LLVM's name of an AMD target."""
        return self.capability or self.text("gfx_name")

    @cached_property
    def architecture(self) -> str:
        """Name of the architecture."""
        return self.text("architecture") or self.table["arch"]

    @cached_property
    def family(self) -> str:
        """The major compute capability, or GCN, CDNA, RDNA."""
        return self.capability.split(".")[0] or self.architecture.rstrip("0123456789.")

    @property
    def warp_size(self) -> int:
        """Threads of a warp."""
        return int(self.need("warp_size").value) if self.amd else 32

    @property
    def sm_count(self) -> float:
        """Number of SMs or compute units."""
        return self.need("sm_count").value

    @property
    def uncached(self) -> bool:
        """Whether global loads go straight to DRAM, as of compute capability 1.x."""
        return self.capability.startswith("1.")

    def lanes(self, pipe: str) -> float | None:
        """Lanes of a pipe in one SM."""
        measured, listed = self.own(f"lanes_{pipe}"), self.table.get(f"lanes_{pipe}")
        return measured.value if measured else float(listed) if listed else None

    def distance(self, other: "Card") -> float:
        """The distance between two numbers of SMs."""
        mine, theirs = self.own("sm_count"), other.own("sm_count")
        return abs(math.log(mine.value / theirs.value)) if mine and theirs else math.inf

    def near(self) -> list[tuple[str, list["Card"]]]:
        """Levels of cards near this one and their names: itself, each named relative, those of its target."""
        named = [self.others[key] for key in self.relatives if key in self.others]
        same = [other for other in self.others.values() if other is not self and other.target == self.target]
        what = f"same {'gfx target' if self.amd else 'compute capability'}"
        return [("", [self]), *(("nearest relative", [other]) for other in named), (what, same)]

    def far(self) -> list[tuple[str, list["Card"]]]:
        """The same family, then older generations, then newer ones, nearest first."""
        order = AMD if self.amd else NVIDIA
        here = order.index(self.architecture)
        strangers = [o for o in self.others.values() if o.amd == self.amd and o.target != self.target]
        levels = [("same architecture family", [o for o in strangers if o.family == self.family])]
        for generation in [*reversed(order[:here]), *order[here + 1 :]]:
            what = f"nearest generation with one, {generation}"
            levels.append((what, [o for o in strangers if o.architecture == generation]))
        return levels

    def borrow(
        self, *parameters: str, nearby: bool = False, alike: Callable[["Card"], bool] = lambda other: True
    ) -> Value | None:
        """Return the card's own value, or that of the nearest relative that is `alike`."""
        for levels in (self.near(), [] if nearby else self.far()):
            for kinds in ((MEASURED, STATED), (MODELLED, FITTED)):
                for what, cards in levels:
                    kind = {o: rows[0].kind for o in cards if alike(o) and (rows := o.best(*parameters))}
                    lenders = [other for other in kind if kind[other] in kinds]
                    if lenders:
                        lender = min(lenders, key=lambda card: (KINDS.index(kind[card]), self.distance(card)))
                        value = lender.need(*parameters)
                        if lender is self:
                            return value
                        rule = f"as on {lender.key} ({what})" + f", {value.rule}" * bool(value.rule)
                        return value.derived(value.value, rule)
        return None

    def must_borrow(self, *parameters: str, alike: Callable[["Card"], bool] = lambda other: True) -> Value:
        """Do as `borrow`, and stop the script if it finds nothing."""
        value = self.borrow(*parameters, alike=alike)
        if value is None:
            sys.exit(f"{self.key}: no card lends {' or '.join(parameters)}")
        return value


class WithFile(NamedTuple):
    """A row of catalogue.csv: a card that gets a file."""

    gpu: str  # its name in findings.csv
    file: str
    name: str
    aliases: list[str]
    device: str  # "" if not known


class Facts:
    """The tables of a folder such as gpus/facts."""

    def __init__(self, folder: Path) -> None:
        sources = _rows(folder / "sources.csv")
        self._sources = {row["key"]: Origin(row["source"], row["kind"]) for row in sources}
        self.capabilities = {row["cc"]: row for row in _rows(folder / "capabilities.csv")}
        self.devices = {row["file"]: row["device"] for row in _rows(folder / "devices.csv")}
        self.listed: list[WithFile] = []
        relatives: dict[str, list[str]] = {}
        for row in _rows(folder / "catalogue.csv"):
            aliases, relatives[row["gpu"]] = (_several(row[column]) for column in ("aliases", "relatives"))
            device = self.devices.get(row["file"], "")
            self.listed.append(WithFile(row["gpu"], row["file"], row["name"], aliases, device))
        parameters = {row["parameter"]: row for row in _rows(folder / "parameters.csv")}
        self.cards: dict[str, Card] = {}
        for row in _rows(folder / "findings.csv"):
            key = row["gpu"]
            card = self.cards.setdefault(key, Card(key, {}, relatives.get(key, []), self))
            finding = self._finding(row, parameters)
            if not finding.note.startswith("REJECT:"):
                card.rows.setdefault(finding.parameter, []).append(finding)

    def sources_of(self, keys: str) -> tuple[Origin, ...]:
        """The sources of keys joined by semicolons; `CC:` before them marks a copy of capabilities.csv."""
        return tuple(self._sources[key] for key in keys.removeprefix("CC:").split(";"))

    def _finding(self, row: dict[str, str], parameters: dict[str, dict[str, str]]) -> Finding:
        """A row, its parameter and unit checked."""
        name, unit = row["parameter"], row["unit"]
        if name not in parameters:
            sys.exit(f"{row['gpu']}: found parameter '{name}', expected one of parameters.csv")
        units = parameters[name]["units"].split(";")
        if unit not in units:
            sys.exit(f"{row['gpu']}: {name}: found unit '{unit}', expected {' or '.join(units)}")
        sources = self.sources_of(row["source"])
        return Finding(name, row["value"], unit, sources, row["note"], parameters[name]["kind"])


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _several(cell: str) -> list[str]:
    return cell.split(";") if cell else []

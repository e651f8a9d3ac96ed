"""Tables of configurations as files for the programs that read them: a row of FORMATS and a module each.

A module has `text(table)`, the file's content, or `configuration(row)`, a configuration by its reader's
names, if the file is a list of these; and `file_name(table)` if the reader expects a certain name.
"""

import csv
import io
import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

from dse.errors import DseError, InputWarning, check_names

Row = Mapping[str, Any]
Own = TypeVar("Own", bound=Mapping[str, Any])  # a configuration by a reader's names
EXPERTS = ("moe", "w8a8")  # kernels of vLLM and SGLang
PRODUCT = "product"  # of matrices, in the shapes of a file
BESIDE = ("low_s", "high_s", "library_s", "layer_s", "by")  # optional columns of a row after its time


@dataclass(frozen=True)
class BestConfigurations:
    """Configurations by problem, fastest predicted first.

    A row has the columns `sizes`, `parameters` and `time_s`. `subject` is the Kernel of
    `dse.explore.matrix.table`, or for each problem the Call of `dse.bridges.calls`.
    """

    kernel: str
    gpu: str
    sizes: Sequence[str]
    parameters: Sequence[str]
    problems: Sequence[Sequence[Row]]
    subject: Any = None
    device: str = ""  # in the spelling of torch.cuda.get_device_name(), if stated
    reported: str = ""  # likewise, as the GPU's driver reports it, if known

    @property
    def title(self) -> str:
        """Kernel and GPU of the table."""
        return f"{self.kernel} on {self.gpu}"

    @property
    def named_device(self) -> str:
        """The device by the name that readers look for. Warns if that is not known."""
        if not (name := self.device or self.reported):
            problem = f"found none, and no name that the driver of {self.gpu} reports"
            warnings.warn(
                f"device: {problem}, expected torch.cuda.get_device_name(): else the file may not be read",
                InputWarning,
                stacklevel=2,
            )
        return name or self.gpu

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows, problem after problem."""
        names = (*self.sizes, *self.parameters, "time_s", *BESIDE)
        return [{name: row[name] for name in names if name in row} for rows in self.problems for row in rows]


@dataclass(frozen=True)
class Format:
    """One format: its readers with the tried versions, its writer, and the kernels that it holds."""

    reader: str
    module: str = ""  # none: `write` has the content
    kernels: tuple[str, ...] = ()  # none: any
    suffix: str = "json"
    first: int = 1  # configurations of a problem
    several: bool = True  # whether it holds more than one for a problem
    write: Callable[[BestConfigurations], str] | None = None

    @property
    def _writer(self) -> Any:
        return import_module(self.module) if self.module else None

    def file_name(self, table: BestConfigurations) -> str:
        """The name that the reader looks for; else the table's title."""
        name = getattr(self._writer, "file_name", None)
        return name(table) if name else f"{table.title.replace('/', ' ')}.{self.suffix}"

    def text(self, table: BestConfigurations) -> str:
        """The file's content. **Raises:** DseError for a problem that the format cannot hold."""
        write = self.write or getattr(self._writer, "text", None)
        return write(table) if write else _by_problem(table, self._writer.configuration)

    def shipped(self, table: BestConfigurations) -> str:
        """Describe the file that an installed reader ships for the same GPU and sizes; else ""."""
        shipped = getattr(self._writer, "shipped", None)
        return shipped(table) if shipped else ""


def _as_json(table: BestConfigurations) -> str:
    """A list of objects with `size`, `configuration` and `time_s`."""
    names = {"size": table.sizes, "configuration": table.parameters}
    rows = [
        {part: {name: row[name] for name in of_part} for part, of_part in names.items()}
        | {"time_s": row["time_s"]}
        for row in table.rows
    ]
    return json.dumps(rows, indent=1) + "\n"


def _as_csv(table: BestConfigurations) -> str:
    """A row for each configuration, with its sizes, its parameters and `time_s`."""
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, (*table.sizes, *table.parameters, "time_s"), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table.rows)
    return out.getvalue()


FORMATS = {
    "vllm": Format("vLLM 0.33: VLLM_TUNED_CONFIG_FOLDER", "dse.bridges.vllm", EXPERTS, several=False),
    "sglang": Format("SGLang 0.5: SGLANG_MOE_CONFIG_DIR", "dse.bridges.sglang", EXPERTS, several=False),
    "inductor": Format(
        "PyTorch 2.15: torch._inductor.config.lookup_table.table", "dse.bridges.inductor", (PRODUCT,), first=3
    ),
    "helion": Format("Helion 1.5: autotune_seed_configs", "dse.bridges.helion", (PRODUCT,), first=5),
    "tilelang": Format("TileLang 0.1: autotune(configs=...)", "dse.bridges.tilelang", (PRODUCT,), first=10),
    "cutile": Format("cuTile 1.7: exhaustive_search", "dse.bridges.cutile", (PRODUCT,), first=5),
    "tokamax": Format("tokamax 0.0.12: data/autotuning", "dse.bridges.tokamax", (PRODUCT,)),
    "json": Format("any program", write=_as_json),
    "csv": Format("any program", suffix="csv", write=_as_csv),
    "triton": Format("a Python program with Triton", "dse.bridges.triton_table", suffix="py", several=False),
}


def form(name: str, kernel: str) -> Format:
    """Find a format. **Raises:** DseError for an unknown name, or a kernel that it cannot hold."""
    check_names("format", FORMATS, name)
    kernels = FORMATS[name].kernels
    if kernels and kernel not in kernels:
        raise DseError(f"format: {name}: found with {kernel}, expected {' or '.join(kernels)}")
    return FORMATS[name]


def _by_problem(table: BestConfigurations, configuration: Callable[[Row], Own]) -> str:
    """Write, as JSON, the sizes of each problem and its configurations by a reader's own names."""
    problems = [
        {
            "size": {name: rows[0][name] for name in table.sizes},
            "configurations": distinct(map(configuration, rows)),
        }
        for rows in table.problems
        if rows
    ]
    return json.dumps(problems, indent=1) + "\n"


def distinct(configurations: Iterable[Own]) -> list[Own]:
    """Leave out repeated configurations."""
    unique: list[Own] = []
    for configuration in configurations:
        if configuration not in unique:
            unique.append(configuration)
    return unique

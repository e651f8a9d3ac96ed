"""`dse gpus`: the known GPUs, and the source of each of their numbers."""

from typing import Annotated

import typer

from dse.cli.options import App, CommandGroup, Output, grouped
from dse.errors import DseError, nearest

app = App(name="gpus", cls=CommandGroup)

# From vendor data to fitted values.
PROVENANCE = ("stated", "measured", "measured here", "derived", "fitted")


@app.callback(invoke_without_command=True, epilog="Example: [bold]dse gpus --name 'rtx 40'[/bold]")
@grouped
def gpus(
    context: typer.Context,
    *,
    name: Annotated[str | None, typer.Option(help="All GPUs with this in a name.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All GPUs, not only those with a file.")] = False,
    output: Output,
) -> None:
    """List the GPUs.

    By default GPUs with their own file; `--name` and `--all` include those derived from one (docs/gpus.md).
    """
    if context.invoked_subcommand is None:
        from dse.hardware.gpus.table import known, letters

        rows = list(known().values())
        listed = [row for row in rows if every or not row.like]
        if name is not None:
            part = letters(name)
            listed = [row for row in rows if any(part in letters(text) for text in row.texts)]
            if not listed:
                near = " or ".join(nearest(name, [row.typed for row in rows]))
                hint = f"; did you mean {near}?" if near else ""
                raise DseError(f"--name: found no GPU with {name!r} in its name, expected one{hint}")
        shown = [
            {
                "name": row.typed,
                "cc": row.target,
                "year": int(row.year) if row.year else None,
                "sm_count": _number(row.sm_count),
                "clock": _number(row.clock, 1e6),
                "dram_bandwidth": _number(row.dram_bandwidth, 1e9),
                "tflops": _number(row.tflops),
                "like": row.like.replace("_", "-"),
            }
            for row in listed
        ]
        units = {"clock": "Hz", "dram_bandwidth": "B/s"}
        title = f"GPUs: {len(listed)} of {len(rows)} (--name WORDS, --all)"
        output.present(shown, title=title, units=units)
        then = "dse gpus show NAME says where each value is from"
        output.conclude(f"{len(listed)} of {len(rows)} GPUs", then=then)


def _number(text: str, unit: float = 1) -> float | None:
    """Convert a cell of the catalogue to SI, with its precision."""
    return float(f"{float(text) * unit:.6g}") if text else None


@app.subcommand("Example: [bold]dse gpus show a100-pcie-40gb[/bold]")
def show(
    name: Annotated[str, typer.Argument(help="A GPU that `dse gpus` lists, or the path of a GPU file.")],
    *,
    output: Output,
) -> None:
    """Show each number of a GPU with its source: stated, measured, derived by a rule, or fitted."""
    from dse.hardware.gpus import load

    file = load(name)
    records = sorted(file.fields, key=lambda record: PROVENANCE.index(record.provenance))
    rows = [
        {
            "provenance": record.provenance,
            "field": record.field,
            "value": record.value,
            "unit": record.unit,
            "rule": record.rule,
            "source": record.source,
        }
        for record in records
    ]
    header = file.header
    capability = (
        f"compute capability {header.compute_capability}" if header.compute_capability else header.gfx_name
    )
    title = f"{header.name}: {header.vendor} {header.architecture}, {capability}"
    output.present(rows, title=title, section="provenance")
    stated = sum(record.provenance in PROVENANCE[:3] for record in records)
    finding = f"{len(rows)} values of {header.name}, {stated} of them stated or measured"
    output.conclude(finding, then=f"dse rank KERNEL -g {name}")

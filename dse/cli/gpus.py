"""`dse gpus`: which GPUs there are, and where each of their numbers is from."""

from typing import Annotated

import typer

from dse.cli.options import CsvOption, Group, JsonOption, OutOption, WideOption, present

app = typer.Typer(name="gpus", cls=Group, rich_markup_mode="rich")

# From what a vendor says to what fits best.
PROVENANCE = ("stated", "measured", "measured here", "derived", "fitted")


@app.callback(invoke_without_command=True, epilog="Example: [bold]dse gpus[/bold]")
def gpus(
    context: typer.Context, json: JsonOption = False, csv: CsvOption = False, out: OutOption = None
) -> None:
    """List the GPUs."""
    if context.invoked_subcommand is None:
        import numpy as np

        from dse.core.catalogue import folder
        from dse.core.precision import in_64_bits
        from dse.hardware.gpus.read import load, names

        with in_64_bits():  # or 864 GB/s would become 864.000016
            files = {name: load(folder("gpus") / f"{name}.toml", np.float64) for name in names()}
        rows = [
            {
                "name": name,
                "gpu": file.name,
                "vendor": file.header.vendor,
                "architecture": file.header.architecture,
                "cc": file.header.compute_capability or file.header.gfx_name,
                "sm_count": int(file.gpu.sm_count),
                "clock": float(file.gpu.clock),
                "dram_bandwidth": float(file.gpu.dram_bandwidth),
            }
            for name, file in files.items()
        ]
        units = {"clock": "Hz", "dram_bandwidth": "B/s"}
        present(rows, title="GPUs", units=units, json=json, csv=csv, out=out)


@app.command(epilog="Example: [bold]dse gpus show a100-pcie-40gb[/bold]")
def show(
    name: Annotated[str, typer.Argument(help="A GPU that `dse gpus` lists, or the path of a GPU file.")],
    json: JsonOption = False,
    csv: CsvOption = False,
    out: OutOption = None,
    wide: WideOption = False,
) -> None:
    """Show each number of a GPU with its source: what is stated, measured, derived by a rule, and fitted."""
    from dse.hardware.gpus.read import load

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
    present(rows, title=title, section="provenance", json=json, csv=csv, out=out, wide=wide)

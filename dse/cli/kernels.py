"""`dse kernels`: the known kernels and their descriptions."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from dse.cli import inputs
from dse.cli.options import App, CommandGroup, Output, grouped

if TYPE_CHECKING:
    from dse.kernels.description import Description

app = App(name="kernels", cls=CommandGroup)


@app.callback(invoke_without_command=True, epilog="Example: [bold]dse kernels[/bold]")
@grouped
def kernels(context: typer.Context, *, output: Output) -> None:
    """List the kernels: their work, the size of the space before constraints, other names."""
    if context.invoked_subcommand is None:
        from dse.kernels import load, names

        rows = [
            {
                "name": kernel.name,
                "summary": kernel.summary,
                "space_size": kernel.space.size,
                "variant_of": kernel.variant_of,
                "spaces": " ".join(alias.name for alias in kernel.spaces),
            }
            for kernel in map(load, names())
        ]
        output.present(rows, title="Kernels", hidden=("variant_of", "spaces"))
        output.conclude(f"{len(rows)} kernels", then="dse kernels show NAME, or dse rank NAME -g a100")


@app.subcommand("Example: [bold]dse kernels show convolution[/bold]")
def show(
    name: Annotated[str, typer.Argument(help="A kernel that `dse kernels` lists, or the path of one.")],
    *,
    output: Output,
) -> None:
    """Show a kernel's problem sizes, parameters, constraints, and the expressions that describe it."""
    from dse.kernels import load

    kernel = load(name)
    title = f"{kernel.name}: {kernel.summary}"
    rows = [{"part": part, "name": field, "value": value} for part, field, value in _description(kernel)]
    output.present(rows, title=title, section="part")
    finding = f"{kernel.name} has {len(kernel.space.names)} parameters"
    output.conclude(finding, then=f"dse rank {name} -g a100")


@app.subcommand("Example: [bold]dse kernels check my-kernel/kernel.toml --gpu a100[/bold]")
def check(
    name: Annotated[str, typer.Argument(help="A kernel that `dse kernels` lists, or the path of one.")],
    gpu: inputs.GpusOption,
    sample: Annotated[int, typer.Option(min=1, help="Random configurations to check.")] = 10_000,
    changed: inputs.SetOption = None,
) -> None:
    """Evaluate a description on a sample of its space, and report impossible counts.

    Negative counts, launches without threads or registers and divisions by 0 are mistakes in the description.
    For the first valid configuration, it shows the share of warps that take each branch, and the cost of each
    access by subscript, also over the residues of each size in it. For a kernel known only by its source, a
    few configurations are compiled and counted.
    """
    from dse.evaluate.rank import configurations
    from dse.hardware import gpus as gpu_files
    from dse.kernels.description import check as check_description
    from dse.kernels.description import symbolic_rows
    from dse.report import show as table
    from dse.source import readers

    numbers = inputs.settings(changed)
    kernel, sizes = inputs.description(name, numbers)
    files = inputs.gpus(gpu)
    for file in files:
        if kernel.described:
            check_description(kernel, file.gpu, sample, **sizes)
            first = {key: values[0] for key, values in kernel.space.configurations(sizes).items()}
            at = ", ".join(f"{key}={value}" for key, value in first.items())
            rows = list(symbolic_rows(kernel, first, file.gpu, **sizes))
            if rows:
                table.show(rows, title=f"Branches and accesses of {kernel.name} on {file.name}: {at}")
        else:
            few = configurations(kernel, None, min(sample, _FEW))
            readers.counts_of(kernel).count(few, gpu_files.stack([file.gpu]))
    print(f"{kernel.path}: all counts are possible on {', '.join(file.name for file in files)}")


_FEW = 4  # compiled configurations


def _description(kernel: "Description") -> Iterator[tuple[str, str, str]]:
    """Yield the content of kernel.toml as (part, name, value), in its order."""
    for name, size in kernel.problem:
        yield "problem", name, str(size)
    for name in kernel.space.names:
        yield "parameter", name, ", ".join(map(str, kernel.space.values[name]))
    for constraint in kernel.space.constraints:
        yield "constraint", "", constraint.text
    for part in ("let", "launch", "warp"):
        for name, expression in getattr(kernel, part):
            yield part, name, expression.text
    for branch in kernel.branches:
        loops = [f"{index} of {trips.text}" for index, trips in branch.loops]
        yield "branch", branch.name, branch.when.text + "".join(f", {loop}" for loop in loops)
    for access in kernel.accesses:
        yield "access", access.name, f"{access.space} {access.op}"
        for name, expression in access.fields:
            yield "access", f"{access.name}.{name}", expression.text
    for alias in kernel.spaces:
        renamed = [f"{column} is {name}" for column, name in alias.rename]
        yield "space", alias.name, ", ".join(renamed + [f"{name} = {value}" for name, value in alias.set])

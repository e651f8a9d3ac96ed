"""`dse measure build`: compile machine code for `dse measure space` on another machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dse.cli import inputs
from dse.cli.measure.options import CasesOption, KernelsArgument, SampleOption, SeedOption
from dse.cli.measure.plans import in_words, plan_all, title
from dse.cli.options import Screen, command
from dse.core.files import check_target
from dse.errors import DseError

if TYPE_CHECKING:
    from dse.measure.built import BuiltSpace


@command(
    "Example: [bold]dse measure build triton_moe --cases cases.csv --gpu h100-sxm -o h100.zip[/bold]; "
    "there: [bold]dse measure space --built h100.zip -o moe.parquet[/bold]"
)
def build(
    names: KernelsArgument,
    gpu: inputs.GpuOption,
    *,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE.zip", help="The file to write, or to add to.")
    ],
    sample: SampleOption = None,
    seed: SeedOption = 0,
    changed: inputs.SetOption = None,
    cases: CasesOption = None,
    screen: Screen,
) -> None:
    """Compile configurations for `dse measure space --built` on machines without Triton or a compiler.

    Needs no GPU. Other kernels and cases in FILE.zip are kept.
    """
    from dse.hardware import gpus
    from dse.measure import built
    from dse.measure.space import build as build_plan
    from dse.report.show import progress
    from dse.source.nvidia.source import architecture

    if out.suffix.lower() != ".zip":
        raise DseError(f"{out}: suffix: found {out.suffix!r}, expected .zip")
    check_target(out)
    file = gpus.load(gpu)
    plans = plan_all(names, changed, sample, seed, file.gpu, cases)
    arch = {architecture(file.gpu, plan.source) for plan in plans}.pop()  # type: ignore[arg-type]
    earlier = built.read(out) if out.is_file() else built.BuiltFile(out, arch, ())
    if earlier.arch != arch:
        raise DseError(f"{out}: architecture: found sm_{earlier.arch}, expected sm_{arch} of {file.name}")
    spaces = []
    for plan in plans:
        with progress(f"Compiling {title(plan)} for sm_{arch}", len(plan.parameters)) as advance:
            spaces.append(build_plan(plan, arch, file.gpu, advance))
    built.write(out, arch, built.together(earlier.spaces, spaces))
    rows = [_built_row(space, arch) for space in spaces]
    screen.present(rows, title=str(out))
    finding = f"{sum(row['codes'] for row in rows):,} machine codes for sm_{arch}"
    finding += f", {out.stat().st_size / 1e6:,.1f} MB"
    screen.conclude(finding, wrote=out, then=f"dse measure space --built {out} where the GPU is")


def _built_row(space: "BuiltSpace", arch: int) -> dict[str, Any]:
    from collections import Counter

    from dse.source.contract import Failure

    reasons = Counter(result.reason for result in space.outcomes if isinstance(result, Failure))
    return {
        "arch": arch,
        "kernel": space.kernel,
        "sizes": in_words(space.sizes),
        "taken": len(space.outcomes),
        "codes": len({result for result in space.outcomes if not isinstance(result, Failure)}),
        "refused": ", ".join(f"{count} {reason}" for reason, count in reasons.items()),
    }

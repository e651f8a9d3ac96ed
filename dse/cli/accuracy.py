"""`dse accuracy`: how near models come to measured times, and tuning to the optimum."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import typer

from dse.cli import inputs
from dse.cli.options import CommandGroup, JsonOption
from dse.core.files import around, fill
from dse.errors import DseError, one_line
from dse.models import DEFAULT, MODELS

MOST_PARTS = 1_000
SAMPLE = 300  # configurations of a table that are read from source
DESCRIBED = "measured spaces"  # section of a page
PARTLY = "the traces were reconstructed partly from these times (docs/teg.md)"
COUNTS = ("configurations", "failed", "unpredicted")  # of a table: the same for all models, nearly


class _FolderOrCommand(CommandGroup):
    """A command with subcommands; what names none of them is what `spaces` is given."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `spaces` before what is no subcommand."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["spaces", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    name="accuracy",
    cls=_FolderOrCommand,
    subcommand_metavar="DIR | COMMAND [ARGS]...",
    rich_markup_mode="rich",
    no_args_is_help=True,
)

FolderArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="One folder a space, in it one CSV or Parquet file a GPU.")
]
PageOption = Annotated[
    Path | None,
    typer.Option("--page", metavar="FILE", help="Write Markdown between the markers of a page; - prints it."),
]


@app.callback(
    epilog="Examples: [bold]dse accuracy DIR[/bold]; [bold]dse accuracy DIR --source --sample 50[/bold]; "
    "[bold]dse accuracy tuning DIR --seeds 1[/bold]"
)
def accuracy() -> None:
    """Score models on the measured spaces of a folder (`dse accuracy DIR`), or as a subcommand says."""


@app.command(
    epilog="Examples: [bold]dse accuracy DIR --model phase --model volkov[/bold]; "
    "[bold]dse accuracy DIR --source --set use_shmem=1 --page docs/accuracy.md[/bold]"
)
def spaces(
    folder: FolderArgument,
    model: inputs.ModelsOption = None,
    by_source: inputs.SourceOption = False,
    sample: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help=f"With --source: configurations of a table, at random ({SAMPLE})."
        ),
    ] = None,
    changed: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="With --source: fix a parameter of kernels; repeatable."
        ),
    ] = None,
    only: Annotated[
        str, typer.Option(metavar="TEXT", help="With --source: spaces or GPUs whose name holds this.")
    ] = "",
    json: JsonOption = False,
    page: PageOption = None,
) -> None:
    """Score models on the measured spaces of a folder (as well: `dse accuracy DIR`); nothing is fitted.

    DIR holds a folder for each space, named as under `spaces` of a kernel.toml, with one (gzip) CSV or
    Parquet file a GPU. The scores are those of `dse compare`. With --source, counts come from the kernels'
    CUDA source, for a sample of the configurations that ran; a page has a section for each vendor's GPUs.
    """
    _one_form(json, page, () if by_source else (DESCRIBED,))
    for option, value in (("--sample", sample), ("--set", changed), ("--only", only)):
        if value and not by_source:
            raise DseError(f"{option}: found without --source, expected both")
    models, settings = inputs.models(model, tuple(MODELS)), inputs.settings(changed)
    from dse.accuracy.models import described, from_source, markdown
    from dse.report.conclusion import conclude
    from dse.report.show import progress, show

    if by_source:
        scores = list(from_source(folder, sample or SAMPLE, settings, models, _note, progress, only))
    else:
        scores = list(described(folder, models, _note, progress))
    if json:
        _print_json({"tables": [space.as_dict() for space in scores]})
    elif page and by_source:
        for vendor in dict.fromkeys(space.vendor for space in scores):
            section = "from source" if vendor == "NVIDIA" else f"from source on {vendor}"
            _write(page, section, markdown(space for space in scores if space.vendor == vendor))
    elif page:
        _write(page, DESCRIBED, markdown(scores))
    else:
        for space in scores:
            rows = [{name: row[name] for name in row if name not in COUNTS} for row in space.rows]
            show(rows, title=f"{space.space} on {space.gpu}: {space.summary}")
        ranks = {
            name: [row["spearman"] or 0.0 for space in scores for row in space.rows if row["model"] == name]
            for name in (model.name for model in models)
        }
        best = max(ranks, key=lambda name: fmean(ranks[name]))
        finding = f"highest mean Spearman of {len(scores)} tables: {fmean(ranks[best]):.2f} by {best}"
        conclude(
            finding, sure="nothing was fitted", then="dse accuracy tuning DIR says what a tuner gains by it"
        )


@app.command(
    epilog="Examples: [bold]dse accuracy tuning DIR --only A100 --seeds 1[/bold]; "
    "[bold]dse accuracy tuning DIR --page docs/accuracy.md[/bold]"
)
def tuning(
    folder: FolderArgument,
    model: inputs.ModelOption = DEFAULT,
    seeds: Annotated[int, typer.Option(metavar="N", min=1, help="Runs that the means are over.")] = 10,
    budget: Annotated[
        int, typer.Option(metavar="N", min=5, help="Evaluations of `dse tune`, at most.")
    ] = 100,
    compiled: Annotated[
        int, typer.Option("--compile", metavar="N", help="Of a source: compile this many configurations.")
    ] = 96,
    only: Annotated[str, typer.Option(metavar="TEXT", help="Spaces or GPUs whose name holds this.")] = "",
    by_source: inputs.SourceOption = False,
    parts: Annotated[
        int,
        typer.Option(metavar="N", min=0, max=MOST_PARTS, help="Score N random halves of each table instead."),
    ] = 0,
    order: Annotated[
        str, typer.Option(metavar="ORDER", help="Of predictions: predicted, reversed, or none: without them.")
    ] = "predicted",
    json: JsonOption = False,
    page: PageOption = None,
) -> None:
    """Tune measured spaces with few evaluations, and tell how close to the optimum that comes.

    A kernel is read from the source that a T1.json beside the tables names, else from the description that
    lists the folder's name, or with --source from the source of that; else a space is tuned from its
    parameters alone (`from`: source, described or none). Fractions are of the optimum: random choice of 20,
    exactly; the best of the model's first 20; `dse tune` after 5 to 100 evaluations. Spearman's rank
    correlation is of the model, and of the model refitted to 5, 10 and 20 measurements taken at random, over
    the others. Means over --seeds.

    --parts 10 asks how much of that is the luck of one optimum; --order reversed what a model costs that is
    wrong, beside --order none.
    """
    _one_form(json, page)
    closed_form = inputs.closed_form(model)
    from dse.accuracy.known import PredictionSettings
    from dse.accuracy.tuning import TuningSettings, evaluate, table, with_mean
    from dse.report.conclusion import conclude
    from dse.report.show import progress, show

    plan = TuningSettings(PredictionSettings(closed_form, compiled, by_source), seeds, budget, parts, order)
    rows = list(evaluate(folder, plan, only, _note, progress))
    if json:
        _print_json({"rows": rows})
    elif page:
        _write(page, "tuning from source" if by_source else "tuning", table(rows))
    else:
        show(with_mean(rows), title="Tuning")
        last = [name for name in rows[0] if name.startswith("tune_")][-1]
        lowest = min(rows, key=lambda row: row[last])
        mean, count = fmean(row[last] for row in rows), last.removeprefix("tune_")
        finding = f"after {count} measurements {mean:.3f} of the optimum, mean of {len(rows)} tables; "
        finding += f"lowest {lowest[last]:.3f}, {lowest['space']} on {lowest['gpu']}"
        conclude(finding, sure=f"mean of {seeds} seeds")


@app.command(
    epilog="Examples: [bold]dse accuracy teg[/bold]; [bold]dse accuracy teg --page docs/accuracy.md[/bold]"
)
def teg(json: JsonOption = False, page: PageOption = None) -> None:
    """Score all models on the TEG paper's Tables 2 to 5, which come with the package: mean errors in percent.

    TEG gets the traces of the kernels, reconstructed as docs/teg.md says, the other models descriptions with
    the traces' counts. JSON has every cell.
    """
    _one_form(json, page, ("TEG tables",))
    from dse.accuracy import teg as tables
    from dse.report.conclusion import conclude
    from dse.report.show import progress, show

    rows = tables.cells(progress)
    if json:
        _print_json({"rows": rows})
    elif page:
        _write(page, "TEG tables", tables.page(rows))
    else:
        means = tables.means(rows)
        show(means, title="Mean errors of cycles [%]")
        best = min(means[1:], key=lambda row: row["all"])  # after the paper's own
        finding = f"lowest mean error: {best['all']:.1f} % by {best['model']}"
        conclude(f"{finding}; the paper prints {means[0]['all']:.1f} %", sure=PARTLY)


def _one_form(json: bool, page: Path | None, sections: Sequence[str] = ()) -> None:
    """Check, before the work, that JSON or a page is asked for, and that the page has these sections."""
    if json and page:
        raise DseError("--page: found together with --json, expected one of them")
    if page and str(page) != "-":
        for section in sections:
            around(page, section)


def _print_json(value: dict[str, Any]) -> None:
    from dse.report.numbers import json_text

    print(json_text(value))


def _write(page: Path, section: str, markdown: str) -> None:
    """Fill the section of a page, or print the Markdown for `-`."""
    if str(page) == "-":
        print(markdown)
    else:
        fill(page, section, markdown)


def _note(message: str) -> None:
    typer.echo(f"dse: warning: {one_line(message)}", err=True)

"""`dse accuracy`: score models on measured times, and tuning against the optimum."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import typer

from dse.cli import inputs
from dse.cli.options import App, CommandGroup, JsonOption
from dse.core.files import around, fill
from dse.errors import DseError, one_line
from dse.models import DEFAULT, MODELS

MOST_PARTS = 1_000
SAMPLE = 300  # configurations of a table counted from source
DESCRIBED = "measured spaces"  # section of a page
PARTLY = "the traces were reconstructed partly from these times (docs/teg.md)"
COUNTS = ("configurations", "failed", "unpredicted")  # of a table: nearly the same for all models


class _FolderOrCommand(CommandGroup):
    """A command with subcommands, `spaces` by default."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert `spaces` if the first argument is not a subcommand."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["spaces", *args]
        return super().parse_args(ctx, args)


_METAVAR = "DIR | COMMAND [ARGS]..."
app = App(name="accuracy", cls=_FolderOrCommand, subcommand_metavar=_METAVAR, no_args_is_help=True)

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
    """Score models on the measured spaces of a folder (`dse accuracy DIR`), or by a subcommand."""


@app.subcommand(
    "Examples: [bold]dse accuracy DIR --model phase --model volkov[/bold]; "
    "[bold]dse accuracy DIR --source --set use_shmem=1 --page docs/accuracy.md[/bold]"
)
def spaces(
    folder: FolderArgument,
    model: inputs.ModelsOption = None,
    by_source: inputs.SourceOption = False,
    sample: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help=f"With --source: random configurations of a table ({SAMPLE})."),
    ] = None,
    changed: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="With --source: fix a parameter of kernels; repeatable."
        ),
    ] = None,
    only: Annotated[
        str, typer.Option(metavar="TEXT", help="With --source: spaces or GPUs whose name contains this.")
    ] = "",
    json: JsonOption = False,
    page: PageOption = None,
) -> None:
    """Score models on the measured spaces of a folder (also `dse accuracy DIR`); nothing is fitted.

    DIR holds a folder for each space, named as under `spaces` of a kernel.toml, with one (gzip) CSV or
    Parquet file a GPU. The scores are those of `dse compare`. With --source, counts come from the kernels'
    CUDA source, for a sample of the configurations that ran; a page has one section a vendor.
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
        conclude(finding, sure="nothing was fitted", then="dse accuracy tuning DIR scores tuning with it")


@app.subcommand(
    "Examples: [bold]dse accuracy tuning DIR --only A100 --seeds 1[/bold]; "
    "[bold]dse accuracy tuning DIR --page docs/accuracy_tuning.md[/bold]"
)
def tuning(
    folder: FolderArgument,
    model: inputs.ModelOption = DEFAULT,
    seeds: Annotated[int, typer.Option(metavar="N", min=1, help="Runs in the means.")] = 10,
    budget: Annotated[
        int, typer.Option(metavar="N", min=5, help="Evaluations of `dse tune`, at most.")
    ] = 100,
    compiled: Annotated[
        int, typer.Option("--compile", metavar="N", help="From source: configurations to compile.")
    ] = 96,
    only: Annotated[str, typer.Option(metavar="TEXT", help="Spaces or GPUs whose name contains this.")] = "",
    by_source: inputs.SourceOption = False,
    parts: Annotated[
        int,
        typer.Option(metavar="N", min=0, max=MOST_PARTS, help="Score N random halves of each table instead."),
    ] = 0,
    order: Annotated[
        str, typer.Option(metavar="ORDER", help="Predictions used: predicted, reversed, or none.")
    ] = "predicted",
    changed: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Only rows with this value; repeatable."),
    ] = None,
    json: JsonOption = False,
    page: PageOption = None,
) -> None:
    """Tune measured spaces with few evaluations, and report the fraction of the optimum reached.

    Counts come from the source named by a T1.json beside the tables, else from the description that lists the
    folder's name, or with --source from its source; else a space is tuned by its parameters alone (`from`:
    source, described or none). Fractions of the optimum are of 20 random choices, exactly; of the best of the
    model's first 20; and of `dse tune` after 5 to 100 evaluations. Rank correlations are of the model, and of
    the model refitted to 5, 10 and 20 random measurements, over the others. Means over --seeds.

    --parts 10 shows the share of luck in a single optimum; --order reversed, compared with --order none, the
    cost of a wrong model.
    """
    _one_form(json, page)
    closed_form, fixed = inputs.closed_form(model), inputs.settings(changed)
    from dse.accuracy.known import PredictionSettings
    from dse.accuracy.tuning import TuningSettings, evaluate, table, with_mean
    from dse.report.conclusion import conclude
    from dse.report.show import progress, show

    how = PredictionSettings(closed_form, compiled, by_source)
    plan = TuningSettings(how, seeds, budget, parts, order, fixed)
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


@app.subcommand(
    "Examples: [bold]dse accuracy teg[/bold]; [bold]dse accuracy teg --page docs/accuracy.md[/bold]"
)
def teg(json: JsonOption = False, page: PageOption = None) -> None:
    """Score all models on the TEG paper's Tables 2 to 5, part of the package: mean errors in percent.

    TEG gets the kernels' traces, reconstructed as described in docs/teg.md; the other models get descriptions
    with the traces' counts. JSON has all cells.
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
    """Check, before the work, that only one of JSON and a page is requested, and the page's sections."""
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

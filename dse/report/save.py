"""Save a chart as SVG, PNG or an offline page, atomically."""

import html
import json
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dse.core.files import replacing
from dse.core.optional import install, needs
from dse.errors import DseError

if TYPE_CHECKING:
    import altair

CHARTS = (".svg", ".png", ".html")
ENGINE_BYTES = 80e9  # address space reserved by the JavaScript engine
SHARPNESS = 2  # PNG pixels for each pixel of the drawing

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>{title}</title></head>
<body>
<div id="chart"></div>
<script>{libraries}</script>
<script>vegaEmbed("#chart", {spec}, {options});</script>
</body>
</html>
"""
# The menu keeps what works offline: save as SVG or PNG.
_OPTIONS = {
    "mode": "vega-lite",
    "actions": {"export": True, "source": False, "compiled": False, "editor": False},
}


def suffix_of(path: Path | str, allowed: Collection[str] = CHARTS) -> str:
    """Return the suffix in lower case. **Raises:** DseError if it is not one of `allowed`."""
    suffix = Path(path).suffix
    if suffix.lower() not in allowed:
        *others, last = allowed
        stated = repr(suffix) if suffix else "none"
        expected = f"{', '.join(others)} or {last}" if others else last
        raise DseError(f"{path}: suffix: found {stated}, expected {expected}")
    return suffix.lower()


def save_chart(chart: "altair.TopLevelMixin", path: Path | str) -> None:
    """Write a chart as SVG, PNG or HTML, by the suffix.

    **Raises:** DseError for another suffix, if the file cannot be written, if the extra `plot` is missing, or
    if the address space is limited to less than ENGINE_BYTES.
    """
    suffix = suffix_of(path)
    _check_address_space(path)
    with needs("vl-convert-python", install("plot")):
        import vl_convert  # its JavaScript engine takes a while to start

    spec = chart.to_json(indent=None, validate=False)  # row by row that takes longer than to draw them
    if suffix == ".svg":
        content = vl_convert.vegalite_to_svg(spec).encode()
    elif suffix == ".png":
        content = vl_convert.vegalite_to_png(spec, scale=SHARPNESS)
    else:
        libraries = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
        content = _page(Path(path).stem, spec, libraries).encode()
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def _check_address_space(path: Path | str) -> None:
    """Reject an address space limit with which the JavaScript engine would kill the process."""
    with suppress(ImportError):
        import resource  # not on all systems

        soft = resource.getrlimit(resource.RLIMIT_AS)[0]
        if soft != resource.RLIM_INFINITY and soft < ENGINE_BYTES:
            limit = f"found a limit of {soft / 1e9:.3g} GB (ulimit -v)"
            raise DseError(
                f"{path}: memory: {limit}, expected {ENGINE_BYTES / 1e9:g} GB or more for drawings"
            )


def _page(title: str, spec: str, libraries: str) -> str:
    # A name with </script> would end the script; in JSON, < occurs in strings only.
    spec = spec.replace("<", "\\u003c")
    return _PAGE.format(
        title=html.escape(title), libraries=libraries, spec=spec, options=json.dumps(_OPTIONS)
    )

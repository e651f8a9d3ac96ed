"""A terminal, and a real browser where there is one."""

import io
import re
import shutil
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--virtual-time-budget=10000",
)


class Elements(HTMLParser):
    """The attributes of each element that has an id, by id; those of `body` by that name."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, dict[str, str | None]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        messages = dict(attrs)
        name = "body" if tag == "body" else messages.get("id")
        if name:
            self.found.setdefault(name, messages)


class Browser:
    """Headless Chromium, a fresh profile a call."""

    def __init__(self, program: str, folder: Path) -> None:
        self.program, self.folder, self.calls = program, folder, 0

    def _run(self, *arguments: str) -> str:
        self.calls += 1
        profile = f"--user-data-dir={self.folder / str(self.calls)}"
        command = [self.program, *QUIET, profile, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=90).stdout

    def elements(self, page: Path, probe: str = "", choice: str = "") -> dict[str, dict[str, str | None]]:
        """Open a page, run `probe` in it once it is drawn, and return its elements by id."""
        waiting = "while (!document.body.dataset.drawn) await new Promise((go) => setTimeout(go, 10));"
        script = f"<script>(async () => {{ {waiting} {probe} }})()</script></body>"
        opened = page.with_name(f"opened-{page.name}")
        opened.write_text(page.read_text(encoding="utf-8").replace("</body>", script), encoding="utf-8")
        parser = Elements()
        parser.feed(self._run("--dump-dom", f"{opened.as_uri()}{choice}"))
        return parser.found

    def picture(self, page: Path, out: Path, width: int, height: int, *flags: str) -> bytes:
        """Take a screenshot; return the PNG."""
        self._run(f"--window-size={width},{height}", f"--screenshot={out}", *flags, page.as_uri())
        return out.read_bytes()


@pytest.fixture
def browser(tmp_path_factory: pytest.TempPathFactory) -> Browser:
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed")
    return Browser(program, tmp_path_factory.mktemp("browser"))


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None], int], list[str]]:
    """`terminal(print_it, 80)`: the lines that a terminal so wide shows, without colours."""

    def lines(shown: Callable[[], None], width: int) -> list[str]:
        monkeypatch.setattr("sys.stdout", stream := Terminal())
        for name in ("NO_COLOR", "FORCE_COLOR"):
            monkeypatch.delenv(name, raising=False)
        for name, value in (("COLUMNS", str(width)), ("TERM", "xterm")):
            monkeypatch.setenv(name, value)
        shown()
        text = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())
        return [line.rstrip() for line in text.splitlines()]

    return lines

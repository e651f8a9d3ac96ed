"""Gives `dse` broken files and options, thousands of them, and counts where it does not answer with one line.

    python scripts/validate/fuzz.py --seed 1 --inputs 10000

Each input is a valid file, or a line of options, whose bytes, numbers, names, lines, nesting or keys were
changed. It is given to a command in a process that is watched. What counts as wrong: a traceback, "a mistake
of dse", over 10 s, over 1 GB more memory than before, the end of the process, an exit code besides 0 and 2,
messages of several lines, of over 2,100 characters, or with control characters. Ends with 1 if there is any.

`--fields` gives every field of GPU files, kernel files and graphs every strange value, one at a time.
`--log FILE` keeps what was done, to go on after an interruption; `--start 5000` begins with that input.
One input again: `--only 4711 --seed 1`; with `--keep DIR` the inputs that went wrong are kept.
"""

import argparse
import contextlib
import io
import json
import multiprocessing
import os
import random
import re
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from unittest.mock import patch

from fuzz_files import CUDA, ROOT, TIMES, Options, Subject, kept
from fuzz_mutations import NUMBERS, WORDS, mutated, places, with_field
from fuzz_subjects import SUBJECTS

MOST_SECONDS, MOST_BYTES, MOST_CHARACTERS = 10, 10**9, 2100


Place = tuple[int, int, int]  # a subject, one of its files, and what `with_field` makes of that


def subject_of(index: int | Place) -> Subject | Options:
    """Return what an input is about."""
    return SUBJECTS[index[0] if isinstance(index, tuple) else index % len(SUBJECTS)]


def prepared(index: int | Place, seed: int, folder: Path) -> tuple[Subject | Options, list[str]]:
    """Write the input of a number, and return its subject and its command."""
    rng = random.Random(f"{seed}:{index}")
    subject = subject_of(index)
    kind = getattr(subject, "kind", "")
    if isinstance(index, tuple):
        assert isinstance(subject, Subject)
        _, file, number = index
        data = with_field(valid(subject.name)[file], number)
        return subject, laid(subject, folder, lambda _: data, rng)
    command = laid(subject, folder, lambda data: mutated(data, kind, rng), rng)
    if isinstance(subject, Options):
        part = rng.choice(subject.broken)
        old, new = command[part], rng.choice((*NUMBERS, *WORDS))
        pieces = re.split(r"(\W)", old)
        if rng.random() < 0.6 and len(pieces) > 1:
            pieces[rng.randrange(len(pieces))] = new
            new = "".join(pieces)
        command[part] = new.replace("\0", "")
    return subject, command


def laid(
    subject: Subject | Options, folder: Path, change: Callable[[bytes], bytes], rng: random.Random
) -> list[str]:
    """Lay out the files of a subject, the one that it is about changed, and return its command."""
    (folder / "k.cu").write_text(CUDA)
    (folder / "TIMES").write_text(TIMES)
    path = folder / getattr(subject, "file", "")
    if isinstance(subject, Subject):
        data = change(rng.choice(valid(subject.name)))
        for name, content in (*subject.beside().items(), (subject.file, data)):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
    names = {"FILE": path, "FOLDER": folder, "CUDA": folder / "k.cu"}
    return [re.sub("FILE|FOLDER|CUDA", lambda found: str(names[found[0]]), part) for part in subject.command]


@kept
def valid(name: str) -> Sequence[bytes]:
    """Return the valid files of a subject."""
    [subject] = [each for each in SUBJECTS if each.name == name and isinstance(each, Subject)]
    return subject.valid()


def judged(subject: Subject | Options, command: Sequence[str], folder: Path, valid: bool = False) -> str:
    """Run a command in this process, and say what was wrong; nothing if all was well.

    What is `valid` must not be refused.
    """
    output, errors, code = io.StringIO(), io.StringIO(), None
    settings = {k: v.replace("FOLDER", str(folder)) for k, v in getattr(subject, "environment", {}).items()}
    try:
        with (
            patch.dict(os.environ, settings),
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(errors),
        ):
            answered(command)
    except SystemExit as end:
        code = end.code
    except BaseException as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/dse/" in frame.filename]
        place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
        return f"{type(error).__name__} at {place}: {str(error)[:100]}"
    lines = [
        line
        for line in errors.getvalue().splitlines()
        if not line.startswith(("dse: warning: ", "assumed: "))
    ]
    if code not in ((None, 0) if valid else (None, 0, 2)):
        return f"exit code {code}: {errors.getvalue()[:200]!r}"
    if len(lines) != (1 if code == 2 else 0):
        return f"{len(lines)} lines with exit code {code}: {' | '.join(lines)[:150]!r}"
    if long := max(map(len, errors.getvalue().splitlines()), default=0) > MOST_CHARACTERS:
        return f"a message of over {MOST_CHARACTERS} characters: {errors.getvalue()[:80]!r}" if long else ""
    for text, where in ((errors.getvalue(), "message"), (output.getvalue(), "output")):
        if found := re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text):
            return f"the character {found[0]!r} in the {where}"
    return ""


def answered(command: Sequence[str]) -> None:
    """Run a command, or call a function that reads a file, and end as a command does."""
    if command[0] != "READ":
        from dse.cli.main import run

        run(["--traceback", "-q", *command])
    from dse.errors import DseError

    module, _, name = command[1].partition(":")
    try:
        getattr(import_module(module), name)(Path(command[2]))
    except DseError as error:
        print(f"dse: {error}", file=sys.stderr)
        sys.exit(2)


def work(pipe: Connection, seed: int, folder: Path, first: Sequence[str]) -> None:
    """Run the inputs whose numbers come in, one after another; before, the valid ones of these subjects."""
    sys.path.insert(0, str(ROOT))
    os.environ |= {"COLUMNS": "120", "DSE_COMPILE_SECONDS": "4", "DSE_COMPILE_GB": "1"}
    refused = []
    # All is compiled, and all inputs are valid before they are changed.
    for subject in (each for each in SUBJECTS if each.name in first):
        emptied(folder)
        command = laid(subject, folder, lambda data: data, random.Random(0))
        if wrong := judged(subject, command, folder, valid=True):
            refused.append(f"{subject.name}: {wrong}")
    if refused:
        pipe.send(("invalid", "\n".join(refused)))
        return
    virtual = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    virtual += (4 if first else 8) * MOST_BYTES  # what is not compiled yet takes some
    resource.setrlimit(resource.RLIMIT_AS, (virtual, virtual))
    pipe.send(("ready", ""))
    while True:
        index = pipe.recv()
        emptied(folder)
        subject, command = prepared(index, seed, folder)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        wrong = judged(subject, command, folder)
        more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        if more > MOST_BYTES:
            wrong = f"{more / 1e9:.1f} GB more; {wrong}"
        pipe.send((subject.name, wrong))
        if more > MOST_BYTES or "MemoryError" in wrong:
            return  # the next is to begin with as little as this one did


def emptied(folder: Path) -> None:
    """Make a folder anew."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()


class Worker:
    """A process that runs inputs, begun anew when it ends or hangs."""

    def __init__(self, seed: int, folder: Path, first: Sequence[str]) -> None:
        self.seed, self.folder, self.first = seed, folder, first
        self.start()

    def start(self) -> None:
        """Start the process, and wait until it has run all that is valid."""
        self.folder.mkdir(exist_ok=True, parents=True)
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(
            target=work, args=(theirs, self.seed, self.folder, self.first), daemon=False
        )
        self.process.start()
        theirs.close()
        state, wrong = self.pipe.recv()
        if state == "invalid":
            sys.exit(f"valid inputs went wrong: {wrong}")
        self.first = ()

    def run(self, index: int | Place) -> tuple[str, str]:
        """Run one input; say its subject and what was wrong."""
        name = subject_of(index).name
        self._before, started = self._seconds(), time.monotonic()
        self.pipe.send(index)
        try:
            while not self.pipe.poll(1):
                if (
                    time.monotonic() - started > 3 * MOST_SECONDS
                    or self._seconds() - self._before > MOST_SECONDS
                ):
                    self.stop()
                    return name, f"over {MOST_SECONDS} s"
            answer = self.pipe.recv()
            if " GB more; " in answer[1] or "MemoryError" in answer[1]:
                self.stop()
            return answer
        except (EOFError, OSError):
            self.process.join()
            code = self.process.exitcode
            self.start()
            return name, f"the process ended with {code}"

    def _seconds(self) -> float:
        """Return the processor time that the process and those that it started have taken."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """End the process and begin anew."""
        self.process.kill()
        self.process.join()
        self.start()


def rounds(
    wanted: Iterable[int | Place], workers: Sequence[Worker]
) -> Iterator[tuple[int | Place, str, str]]:
    """Run inputs on all workers; yield each input's number, subject and what was wrong as it ends."""
    free = SimpleQueue[Worker]()
    for worker in workers:
        free.put(worker)

    def one(index: int | Place) -> tuple[int | Place, str, str]:
        worker = free.get()
        try:
            return index, *worker.run(index)
        finally:
            free.put(worker)

    with ThreadPoolExecutor(len(workers)) as pool:
        yield from pool.map(one, wanted)


def earlier(log: Path | None, seed: int) -> dict[str, tuple[str, str]]:
    """Return what a log says of inputs with this seed: subject and what was wrong, by number."""
    lines = log.read_text().splitlines() if log and log.exists() else []
    found = [json.loads(line) for line in lines if line.endswith("]")]
    return {index: (name, wrong) for its, index, name, wrong in found if its == seed}


def main() -> None:
    """Run the inputs, and list what went wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--only", type=int, help="run the input of this number only")
    parser.add_argument("--start", type=int, default=0, help="the number of the first input")
    parser.add_argument(
        "--subject",
        action="append",
        choices=[subject.name for subject in SUBJECTS],
        metavar="NAME",
        help="those of this subject only (repeatable): " + ", ".join(s.name for s in SUBJECTS),
    )
    parser.add_argument("--fields", action="store_true", help="every value in every field of files in TOML")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--log", type=Path, metavar="FILE", help="what is done; run again to go on")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the inputs that went wrong")
    given = parser.parse_args()
    wanted: list[int | Place] = [*range(given.start, given.inputs)]
    if given.only is not None:
        wanted = [given.only]
    if given.fields:
        wanted = [
            (number, file, place)
            for number, subject in enumerate(SUBJECTS)
            if isinstance(subject, Subject) and subject.kind == "fields"
            for file, data in enumerate(subject.valid())
            for place in range(places(data))
        ]
        random.Random(given.seed).shuffle(wanted)
    subjects = given.subject or [subject.name for subject in SUBJECTS]
    wanted = [n for n in wanted if subject_of(n).name in subjects]
    done, found, first = earlier(given.log, given.seed), Counter[str](), set[str]()
    left = [index for index in wanted if str(index) not in done]
    done = {str(index): done[str(index)] for index in wanted if str(index) in done}

    def count(index: int | Place | str, name: str, wrong: str) -> None:
        if not wrong:
            return
        said = f"{name}: {wrong}"
        kind = re.sub(r"0x[0-9a-f]+|\d{3,}|/\S*", "_", said)[:110]
        found[kind] += 1
        if kind not in first:
            first.add(kind)
            print(f"{index}: {said[:300]}", flush=True)

    for index, (name, wrong) in done.items():
        count(index, name, wrong)
    with tempfile.TemporaryDirectory(prefix="dse-fuzz-") as scratch, contextlib.ExitStack() as stack:
        os.environ["DSE_FUZZ"] = scratch
        log = stack.enter_context(given.log.open("a")) if given.log else None
        jobs = min(given.jobs, len(left))
        workers = [
            Worker(given.seed, Path(scratch, f"inputs{n}"), () if n else subjects) for n in range(jobs)
        ]
        started = time.monotonic()
        for number, (index, name, wrong) in enumerate(rounds(left, workers) if workers else (), 1):
            count(index, name, wrong)
            done[str(index)] = name, wrong
            if log:
                log.write(json.dumps([given.seed, str(index), name, wrong]) + "\n")
                log.flush()
            if wrong and given.keep:
                folder = given.keep / str(index)
                folder.mkdir(exist_ok=True, parents=True)
                with contextlib.suppress(OSError):
                    (folder / "command").write_text(repr(prepared(index, given.seed, folder)[1]))
            if number % 500 == 0:
                print(
                    f"{len(done):,} inputs, {found.total()} wrong, {time.monotonic() - started:.0f} s",
                    flush=True,
                )
        for worker in workers:
            worker.process.kill()
    print(f"{len(done):,} inputs with seed {given.seed}: {found.total()} went wrong, in {len(found)} ways")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()

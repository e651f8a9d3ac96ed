"""Give `dse` thousands of broken files and options, and count inputs without a one-line answer.

    python scripts/validate/fuzz.py --seed 1 --count 10000
    python scripts/validate/fuzz.py --seed 1 --count 1000 --options

An input is a row of `fuzz_subjects.py`: a command with a file or a word changed in its bytes, numbers, names,
lines, nesting or keys. With `--options` it is a command with random options from the command line's own list.
Errors are a traceback, the end of the process, over 10 s of CPU time (120 s with `--options`) or 1 GB more
memory, an exit code other than 0 and 2 (and 1 of a check), and messages with several lines, too long or with
control characters. Exits with 1 if there are any. Valid combinations of options may take long, such as a
thousand configurations to compile: they are interrupted after `PATIENCE`, as by Ctrl-C, and counted.
`--only 4711` repeats and shows an input; `--first 4711` begins with it.
"""

import argparse
import copy
import faulthandler
import gzip
import importlib
import json
import os
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Any

import fuzz_subjects
from fuzz_subjects import COMMANDS, READERS, rows

MOST_BYTES, MOST_CHARACTERS = 10**9, 2100
PATIENCE = 30.0  # s
INTERRUPTED = "interrupted"
JUNK = (
    "-1", "0", "1", "2", "3.5", "1e400", "1e308", "-1e308", "nan", "inf", "-inf", "9" * 20, "9" * 5000,
    "0x10", "1" + "0" * 30, "2147483648", "4294967296", "9223372036854775807", "9223372036854775808", "1_000",
    "00", "-0", "1e-320", "0.1", "65536", "", " ", "\x1b[31mred", "\x07", "a" * 300, "a" * 100_000,
    "/etc/passwd", "../../../etc/passwd", "/dev/zero", "~nosuchuser", "µ·−", "\u202e", "true", "null", "None",
    "[]", "{}", "{", "(" * 50, "(" * 1000, "[" * 100_000, '{"a":' * 5000, "a = " + "[" * 5000, "1/0", "n/0",
    "x ** 64", "abs", "block_size", "block_size / 0", "%s%n", "{x:q}", "{0}", "{block_size:9999999999}",
    "a\nb", "a\tb", "\\", "'", '"', ";", ",", "=", "N=", "=1", "n=", "1,2,3,4,5", "1," * 5000 + "1", "@", "#",
    "\0", "range(10**12)", "[1] * 10**10", "9**9**9", "-", "--help", "/*", "*/", "#include ", "__global__ ",
    ".repeat 2\n", "R300", ".", "+".join(["B"] * 900), "-" * 3000, "not " * 900, "x" + "[0]" * 900,
    "1 if B else " * 900,
)  # fmt: skip
OTHERS = (None, True, -1, 0, 1.5, 1e308, 2**63, 10**30, "", "x", [], {}, [[]], [1] * 1000, {"a": 1})


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Change a valid file in one to three ways."""
    if data[:2] == b"\x1f\x8b" and rng.random() < 0.7:
        return gzip.compress(mutated(gzip.decompress(data), rng), mtime=0)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        ways = [_of_bytes] if b"\0" in data else [_of_bytes, _of_text, _of_text, _of_text, _of_lines]
        ways += [_of_json] * 6 if data[:1] in (b"{", b"[") else []
        data = rng.choice(ways)(data, rng)
    return data


def _of_bytes(data: bytes, rng: random.Random) -> bytes:
    first = rng.randrange(len(data) + 1)
    last = min(len(data), first + rng.choice((0, 1, 4, 8, 100)))
    noise = bytes(rng.randrange(256) for _ in range(rng.choice((1, 2, 4, 8))))
    news = (noise, b"", b"\xff" * 8, b"\0" * 8, data[first:last] * rng.choice((2, 50, 1000)))
    return data[:first] if rng.random() < 0.1 else data[:first] + rng.choice(news) + data[last:]


def _of_text(data: bytes, rng: random.Random) -> bytes:
    """Replace a number, a text, a word or a sign."""
    text = data.decode("utf-8", "surrogateescape")
    kind = rng.choice((r"\d+(?:\.\d+)?", r'"[^"\n]*"', r"[A-Za-z_.]\w*", r"[\[{(<=/*.,;:}\])>+-]"))
    if not (matches := list(re.finditer(kind, text))):
        return _of_bytes(data, rng)
    match, new = rng.choice(matches), rng.choice((*JUNK, rng.choice(matches)[0]))
    if match[0][0] == '"' and rng.random() < 0.7:
        new = json.dumps(new)
    if len(match[0]) == 1 and rng.random() < 0.5:
        new = match[0] * rng.choice((0, 2, 3000, 100_000))
    return (text[: match.start()] + new + text[match.end() :]).encode("utf-8", "surrogateescape")


def _of_lines(data: bytes, rng: random.Random) -> bytes:
    lines = data.splitlines(keepends=True) or [b""]
    number, new = rng.randrange(len(lines)), rng.choice(JUNK).encode() + b"\n"
    news = ([], [new, lines[number]], [rng.choice(lines)], [lines[number] * rng.choice((2, 100))])
    return b"".join([*lines[:number], *rng.choice(news), *lines[number + 1 :]])


def _of_json(data: bytes, rng: random.Random) -> bytes:
    """Drop, double, rename or replace a value."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return _of_bytes(data, rng)
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            places.append((node, key))
            if isinstance(value, dict | list):
                walk(value)

    if isinstance(tree, dict | list):
        walk(tree)
    if not places:
        return _of_bytes(data, rng)
    holder, key = rng.choice(places)
    match rng.randrange(4):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[rng.choice((*JUNK, "Name", "Values"))] = holder.pop(key)
        case 2 if isinstance(holder, list):
            holder.extend(copy.deepcopy(holder[key]) for _ in range(rng.choice((1, 3, 2000))))
        case _:
            holder[key] = rng.choice((*OTHERS, *JUNK, float("nan"), float("inf")))
    return json.dumps(tree, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")


def broken(row: str, valid: Path, folder: Path, rng: random.Random) -> list[str]:
    """Copy the valid files of a row, break one of them or a word of the command, and return its words."""
    shutil.copytree(valid, folder, dirs_exist_ok=True)
    words, named = shlex.split(row), {*re.findall(r"[\w.-]+", row)}
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    relative = [path.relative_to(folder) for path in paths]
    read = [path for path in relative if path.parts[0].removesuffix(".parts") in named]
    if read and (words[0] == "read" or rng.random() < 0.75):
        name = rng.choice(read)
        versions = fuzz_subjects.versions(str(name)) if str(name) in fuzz_subjects.WRITTEN else ()
        (folder / name).write_bytes(mutated(rng.choice(versions or [(folder / name).read_bytes()]), rng))
        return words
    number = rng.randrange(1, len(words))
    pieces = re.split(r"(\W)", words[number])
    pieces[rng.randrange(len(pieces))] = rng.choice(JUNK)
    word = "".join(pieces) if rng.random() < 0.6 else rng.choice(JUNK)
    return [*words[:number], word.replace("\0", ""), *words[number + 1 :]]


def wrong(words: list[str], folder: Path, fine: tuple[int, ...] = (0, 2)) -> str:
    """Run a command in a folder, in this process; return its error, or ""."""
    output, errors, code = StringIO(), StringIO(), 0
    try:
        with chdir(folder), redirect_stdout(output), redirect_stderr(errors):
            _answered(words)
    except SystemExit as end:
        code = end.code or 0
        if code == 130:
            return INTERRUPTED
    except BaseException as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/dse/" in frame.filename]
        origin = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
        return f"{type(error).__name__} at {origin}: {str(error)[:100]}"
    messages = errors.getvalue().splitlines()
    lines = [line for line in messages if not line.startswith(("dse: warning: ", "assumed: "))]
    if code not in fine or len(lines) != (code == 2):
        return f"exit code {code}, {len(lines)} lines: {' | '.join(lines)[:200]!r}"
    if any(len(line) > MOST_CHARACTERS for line in messages):
        return f"a message of over {MOST_CHARACTERS} characters: {errors.getvalue()[:80]!r}"
    strange = re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", errors.getvalue() + output.getvalue())
    return f"the character {strange[0]!r} is shown" if strange else ""


def _answered(words: list[str]) -> None:
    """Run a command, or call a function that reads a file, and exit like a command."""
    if words[0] != "read":
        from dse.cli.main import run

        run(["--traceback", "-q", *words])
    from dse.errors import DseError, InputWarning

    module, _, name = words[1].partition(":")
    try:
        with warnings.catch_warnings(action="ignore", category=InputWarning):  # of what is left out
            getattr(importlib.import_module(module), name)(Path(words[2]).resolve())
    except DseError as error:
        print(f"dse: {error}", file=sys.stderr)
        sys.exit(2)


def combined(rng: random.Random) -> list[str]:
    """Draw a command of the command line's own list, with a few of its options."""
    from dse.cli.commands import COMMANDS as NAMES
    from dse.cli.commands import command

    name = rng.choice([x for x in NAMES if x not in ("measure", "cache", "doctor", "accuracy")])
    words, drawn = [name.replace("_", "-")], command(name)
    if inner := getattr(drawn, "commands", None):
        words.append(rng.choice(list(inner)))
        drawn = inner[words[-1]]
    values = fuzz_subjects.values(rng)
    parameters = [
        parameter
        for parameter in drawn.params
        if parameter.name not in ("help", "install_completion", *values["SKIPPED"])
    ]
    required = [
        parameter
        for parameter in parameters
        if parameter.required or parameter.name in ("kernel", "gpu", "storage")
    ]
    others = [parameter for parameter in parameters if parameter not in required]
    for parameter in required + rng.sample(others, rng.randint(0, min(4, len(others)))):
        option = () if parameter.param_type_name == "argument" else (parameter.opts[0],)
        if getattr(parameter, "is_flag", False):
            words += option
        elif parameter.name in values:
            words += [*option, *shlex.split(rng.choice(values[parameter.name]))]
        else:
            words += [*option, str(rng.choice((parameter.min or 0, 1, 2, 7)))]
    return words


def judge(index: int, seed: int, options: bool, valid: Path) -> tuple[list[str], str]:
    """Run the input with this number; return its words and its error."""
    rng = random.Random(f"{seed}:{index}")
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with tempfile.TemporaryDirectory(prefix="dse-fuzz-") as scratch:
        folder = Path(scratch)
        if options:
            shutil.copytree(valid, folder, dirs_exist_ok=True)
            words = combined(rng)
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            signal.setitimer(signal.ITIMER_REAL, PATIENCE)
        else:
            table = rows(READERS + COMMANDS)
            words = broken(table[index % len(table)], valid, folder, rng)
        error = wrong(words, folder, (0, 1, 2) if options else (0, 2))
        signal.setitimer(signal.ITIMER_REAL, 0)
    seconds = time.process_time() - began
    more_bytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    if not error and seconds > (120 if options else 10):
        error = f"{seconds:.0f} s of the processor"
    return words, error or (f"{more_bytes / 1e9:.1f} GB more" if more_bytes > MOST_BYTES else "")


def child(indices: range, seed: int, options: bool, valid: Path, log: Path) -> None:
    """Run inputs in sequence, and log the beginning and the end of each."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + 8 * MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    faulthandler.register(signal.SIGPROF, chain=True)  # dump the stack, then exit by the signal
    for index in indices:
        with log.open("a") as file:
            print(json.dumps([index]), file=file, flush=True)
            seconds = 300 if options else 60  # of CPU time, which a loaded machine does not inflate
            signal.setitimer(signal.ITIMER_PROF, seconds)
            faulthandler.dump_traceback_later(10 * seconds, exit=True)  # for inputs that hang
            words, error = judge(index, seed, options, valid)
            signal.setitimer(signal.ITIMER_PROF, 0)
            faulthandler.cancel_dump_traceback_later()
            print(json.dumps([index, shlex.join(words)[:300], error]), file=file, flush=True)
        if error:
            return  # a failure may leave memory behind: the next input gets a new process


def family(indices: range, seed: int, options: bool, valid: Path, log: Path) -> None:
    """Run inputs in a process, restarted when it ends early."""
    left, step = list(indices), [*(["--options"] if options else []), "--child", str(valid), str(log)]
    while left:
        numbers = [str(number) for number in (left[0], indices.stop, indices.step)]
        command = [sys.executable, __file__, "--seed", str(seed), *step, *numbers]
        with tempfile.TemporaryFile() as errors:
            ended = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True
            )
            ended.wait()
            with suppress(ProcessLookupError):  # the workers of an interrupted command
                os.killpg(ended.pid, signal.SIGKILL)
            errors.seek(0)
            message = errors.read(900).decode(errors="replace")
        entries = [json.loads(line) for line in log.read_text().splitlines()]
        if len(entries[-1]) == 1:
            error = f"the process ended with {ended.returncode}: {message!r}"
            with log.open("a") as file:
                print(json.dumps([entries[-1][0], "", error]), file=file)
        left = [index for index in left if index > entries[-1][0]]


def prepare(valid: Path) -> None:
    """Make the valid files, and check that all rows accept them unchanged."""

    def run(line: str, folder: Path = valid) -> None:
        if error := wrong(shlex.split(line), folder, (0,)):
            sys.exit(f"{line}: {error}")

    fuzz_subjects.make(valid, run)
    for row in rows(READERS + COMMANDS):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(valid, folder, dirs_exist_ok=True)
            run(row, Path(folder))


def main() -> None:
    """Run the inputs, and list errors."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, metavar="INDEX")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--options", action="store_true", help="random documented options")
    parser.add_argument("--only", type=int, nargs="+", metavar="INDEX", help="run these inputs alone")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--child", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ |= {"COLUMNS": "120", "DSE_COMPILE_SECONDS": "4", "DSE_COMPILE_GB": "1"}
    if options.child:
        valid, log, *numbers = options.child
        return child(range(*map(int, numbers)), options.seed, options.options, Path(valid), Path(log))
    with tempfile.TemporaryDirectory(prefix="dse-valid-") as scratch:
        valid, logs = Path(scratch, "valid"), Path(scratch, "logs")
        valid.mkdir()
        logs.mkdir()
        prepare(valid)
        if options.only is not None:
            for index in options.only:
                print(*judge(index, options.seed, options.options, valid), sep="\n", flush=True)
            return None
        began = time.monotonic()
        with ThreadPoolExecutor(options.jobs) as pool:
            families = [
                pool.submit(
                    family,
                    range(options.first + job, options.count, options.jobs),
                    options.seed,
                    options.options,
                    valid,
                    logs / str(job),
                )
                for job in range(options.jobs)
            ]
        for job in families:
            job.result()  # raises its exception
        entries = [json.loads(line) for log in logs.iterdir() for line in log.read_text().splitlines()]
    ended = {entry[0] for entry in entries if len(entry) == 3}
    assert len(ended) == options.count - options.first, f"only {len(ended)} inputs ended"
    long = sum(len(entry) == 3 and entry[2] == INTERRUPTED for entry in entries)
    failed = [entry for entry in entries if len(entry) == 3 and entry[2] not in ("", INTERRUPTED)]
    kinds = Counter(re.sub(r"\d+", "_", error)[:60] for _, _, error in failed)
    for index, words, error in failed:
        print(f"{index}: {words}: {error}")
    took = f"{time.monotonic() - began:.0f} s"
    ways = f"{len(failed)} went wrong in {len(kinds)} ways, {long} were interrupted"
    print(f"{len(ended):,} inputs with seed {options.seed}: {ways}, {took}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

"""What `fuzz.py` makes of valid files: their bytes, numbers, names, lines, keys or nesting are changed."""

import copy
import gzip
import json
import random
import re
from typing import Any

NUMBERS = (
    "-1", "0", "1", "2", "3.5", "1e400", "1e308", "-1e308", "nan", "inf", "-inf", "9" * 20, "1" + "0" * 30,
    "9" * 4301, "9" * 5000, "2147483647", "2147483648", "4294967296", "9223372036854775807",
    "9223372036854775808", "1000000000000", "0x10", "1_000", "00", "-0", "1e-320", "0.1", "1000000000",
    "65536",
)  # fmt: skip
WORDS = (
    "", " ", "\x1b[31mred", "\x07", "a" * 300, "a" * 100_000, "/etc/passwd", "../../../etc/passwd",
    "/dev/zero",
    "~nosuchuser", "µ·−", "\u202e", "true", "null", "None", "[]", "{}", "{", "(" * 50, "(" * 1000, "1/0",
    "n/0",
    "x ** 64", "block_size", "block_size / 0", "warp_size", "%s%n", "{x:q}", "{0}", "{block_size:9999999999}",
    "a\nb", "a\tb", "\\", "'", '"', ";", ",", "=", "N=", "=1", "n=", "1,2,3,4,5", "1," * 5000 + "1", "@", "#",
    "range(10**12)", "[1] * 10**10", "9**9**9", "abs", "\u0000", "-", "--help",
)  # fmt: skip

FIELDS = (
    "nan", "inf", "-inf", "-1", "0", "-0.0", "0.001", "1.5", "1e-320", "1e308", "1e400", "1" + "0" * 400,
    "9223372036854775807", "-9223372036854775808", "65536", "true", '""', '"x"', '"1/0"', '"9**9**9"', "[]",
    "[1]", "{}", "1979-05-27",
)  # fmt: skip


def places(data: bytes) -> int:
    """Count what `with_field` makes of a TOML file."""
    return len(_values(data)) * len(FIELDS)


def with_field(data: bytes, number: int) -> bytes:
    """Put one value of FIELDS in the place of one value of a TOML file."""
    place, value = divmod(number, len(FIELDS))
    found = _values(data)[place]
    return data[: found.start()] + FIELDS[value].encode() + data[found.end() :]


def _values(data: bytes) -> list[re.Match[bytes]]:
    """Find what stands for a value in TOML: a text, or a number or word behind = or within brackets."""
    return list(
        re.finditer(rb'(?<=[=\[,] )"[^"\n]*"|(?<=[=,] )[-+\w.]+(?=[ ,\n\]}])|(?<=\[)[-+\w.]+(?=[,\]] )', data)
    )


def mutated(data: bytes, kind: str, rng: random.Random) -> bytes:
    """Change a valid file in one to three ways."""
    if kind == "gzip":
        if rng.random() < 0.3:
            return of_bytes(data, rng)
        return gzip.compress(mutated(gzip.decompress(data), "text", rng), mtime=0)
    if kind == "fields":
        return with_field(data, rng.randrange(places(data)))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if kind == "binary" or rng.random() < 0.2:
            data = of_bytes(data, rng)
        elif kind == "json" and rng.random() < 0.7:
            data = of_json(data, rng)
        else:
            data = of_text(data.decode("utf-8", "surrogateescape"), rng).encode("utf-8", "surrogateescape")
    return data


def of_bytes(data: bytes, rng: random.Random) -> bytes:
    """Flip, insert, double, drop or cut bytes."""
    place = rng.randrange(len(data) + 1)
    end = min(len(data), place + rng.choice((1, 4, 8, 100)))
    some = bytes(rng.randrange(256) for _ in range(rng.choice((1, 2, 4, 8))))
    match rng.randrange(7):
        case 0:
            return data[:place] + some + data[place:]
        case 1:
            return data[:place] + some + data[place + len(some) :]
        case 2:
            return data[:place]
        case 3:
            return data[:place] + data[end:]
        case 4:
            return data[:place] + data[place:end] * rng.choice((2, 50, 1000)) + data[end:]
        case 5:
            return (
                data[:place] + rng.choice((b"\xff" * 8, b"\0" * 8, b"\x7f\xff\xff\xff", b"\x80")) + data[end:]
            )
        case _:
            return data[:place] + data[end:] + data[place:end]


def of_text(text: str, rng: random.Random) -> str:
    """Change a number, a word, a line, or how deep something is nested."""
    choice = rng.randrange(10)
    if choice < 4 and (numbers := list(re.finditer(r"\d+(?:\.\d+)?", text))):
        return replaced(text, rng.choice(numbers), rng.choice(NUMBERS))
    if choice < 6 and (words := list(re.finditer(r'"[^"\n]*"|[A-Za-z_.]\w*', text))):
        word = rng.choice(words)
        new = rng.choice((*NUMBERS, *WORDS, rng.choice(words)[0]))
        if word[0].startswith('"') and rng.random() < 0.7:
            new = json.dumps(new)
        return replaced(text, word, new)
    lines = text.splitlines(keepends=True) or [""]
    place = rng.randrange(len(lines))
    match choice:
        case 6:
            del lines[place]
        case 7:
            lines.insert(rng.randrange(len(lines)), lines[place] * rng.choice((1, 1, 100)))
        case 8:
            lines.insert(place, rng.choice((*WORDS, *NUMBERS)) + "\n")
        case _ if signs := list(re.finditer(r"[\[{(<=/*.,;:}\])>+-]", text)):
            sign = rng.choice(signs)
            return replaced(
                text, sign, rng.choice(("", sign[0] * 2, sign[0] * 3000, sign[0] * 100_000, " = [" * 5000))
            )
    return "".join(lines)


def replaced(text: str, found: re.Match[str], new: str) -> str:
    """Put something else in the place of what was found."""
    return text[: found.start()] + new + text[found.end() :]


def of_json(data: bytes, rng: random.Random) -> bytes:
    """Drop a key or an item, or put something else in its place."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return of_bytes(data, rng)
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, value in items:
            places.append((node, key))
            walk(value)

    walk(tree)
    if not places:
        return of_bytes(data, rng)
    holder, key = rng.choice(places)
    others = [
        None,
        True,
        -1,
        0,
        1.5,
        1e308,
        2**63,
        10**30,
        "",
        "x",
        [],
        {},
        [[]],
        [1] * 1000,
        {"a": 1},
        "\x1b[1m",
    ]
    others += [rng.choice(WORDS), rng.choice(NUMBERS), float("nan"), float("inf"), "DIGITS", "DEEP"]
    match rng.randrange(4):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[rng.choice((*WORDS, "Name", "Values"))] = holder.pop(key)
        case 2 if isinstance(holder, list):
            holder.extend(copy.deepcopy(holder[key]) for _ in range(rng.choice((1, 3, 2000))))
        case _:
            holder[key] = rng.choice(others)
    text = json.dumps(tree, ensure_ascii=rng.random() < 0.5)
    deep = "[" * 100_000 + "]" * 100_000
    return text.replace('"DIGITS"', "9" * 5000).replace('"DEEP"', deep).encode("utf-8", "surrogatepass")

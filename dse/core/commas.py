"""Split text at commas."""


def split(text: str, brackets: str = "()") -> list[str]:
    """Split at commas outside of any of these brackets, however deep."""
    depth, parts = 0, [""]
    for character in text:
        place = brackets.find(character)
        depth = max(0, depth + (0 if place < 0 else 1 - 2 * (place % 2)))
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts

"""Validate files with pydantic; the first mistake becomes a one-line error."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from dse.errors import DseError, one_of

Location = tuple[int | str, ...]
Model = TypeVar("Model", bound=BaseModel)

_LONGEST = 60  # characters of a value that a message repeats


def in_json(location: Location) -> str:
    """Format a location in a JSON file: results[0].name."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".")


def in_toml(location: Location) -> str:
    """Format a location in a TOML file, tables of a list counted from 1: instruction.1.name."""
    return ".".join(str(part + 1) if isinstance(part, int) else part for part in location)


def checked(
    model: type[Model], content: Any, where: str, place: Callable[[Location], str] = in_json
) -> Model:
    """Validate `content` as a model; `place` formats the location of a mistake.

    What is expected is the description of the field, if it has one.

    **Raises:** DseError `where: location: found X, expected Y`.
    """
    try:
        return model.model_validate(content)
    except ValidationError as error:
        mistake: Any = error.errors()[0]
    location = mistake["loc"]
    own = model.model_fields.get(str(location[0])) if location else None
    if described := own.description if own else None:
        location = location[:1]  # its parts are described with it
    field = f"{where}: {place(location) or 'top level'}"
    match mistake["type"]:
        case "missing":
            raise DseError(f"{field}: found nothing, expected {described or 'a value'}")
        case "extra_forbidden":
            raise DseError(
                f"{field}: found an unknown field, {one_of(str(location[-1]), _fields(model, location))}"
            )
        case "value_error":  # from our own validators, which phrase the rest
            raise DseError(f"{field}: {mistake['ctx']['error']}")
        case _ if described:
            mistake["input"], expected = content[location[0]], described
        case "too_short":
            expected = "at least one"
        case "too_long":
            expected = f"at most {mistake['ctx']['max_length']}"
        case "model_type" | "dict_type":
            expected = "an object" if place is in_json else "a table"
            expected += "" if location else f" of {', '.join(_fields(model, location))}"
        case _:
            expected = mistake["msg"].removeprefix("Input should be ")
    raise DseError(f"{field}: found {shortened(mistake['input'])}, expected {expected}")


def shortened(value: Any) -> str:
    """Format a value for a message."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number with too many digits
        return "a value too long to show"
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."


def _fields(model: type[BaseModel], location: Location) -> list[str]:
    """List the field names allowed in the innermost table of a location."""
    models: list[type[BaseModel]] = [model]
    for part in location[:-1]:
        tagged = [table for table in models if table.__name__.removesuffix("Table").lower() == part]
        inside = [
            candidate
            for table in models
            for name, field in table.model_fields.items()
            if part in (name, field.alias)
            for candidate in _models(field.annotation)
        ]
        models = tagged or inside or models
    return [field.alias or name for table in models for name, field in table.model_fields.items()]


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)

"""The one exception that a user's mistake raises."""


class DseError(Exception):
    """A mistake in what the user gave: one line that names the place, what was found, what is allowed."""

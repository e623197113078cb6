"""Bounds in seconds that whoever runs the program sets by an environment variable."""

import os

from sandboxio.errors import ConfigurationError


def seconds_from(variable: str, default: float, most: float) -> float:
    """Return the seconds that an environment variable holds, ``default`` where it is unset or empty.

    :raises ConfigurationError: it is no number above 0 and up to ``most``; the message names it, not its value.
    """
    try:
        seconds = float(os.environ.get(variable) or default)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= most:
        raise ConfigurationError(
            f"{variable} is no number of seconds above 0 and up to {most:g}", hint="correct or unset it"
        )
    return seconds

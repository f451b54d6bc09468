"""Settings of the command line that replace those of a file: keys and axes with values."""

from __future__ import annotations

import json

import click


def axes(over: tuple[str, ...], paired: tuple[str, ...]) -> list[str]:
    """Write axes from the command line as overrides of the file's [sweep]."""
    both = [checked(over), checked(paired)]
    single, together = ([entry.split("=", 1) for entry in entries] for entries in both)
    spelled = [f"sweep.{json.dumps(key)}={values}" for key, values in single]
    if together:
        lists = ", ".join(f"{json.dumps(key)} = {values}" for key, values in together)
        spelled.append(f"sweep.paired=[{{ {lists} }}]")
    return spelled


def checked(settings: tuple[str, ...]) -> list[str]:
    """Return settings of the command line, each of which must be KEY=VALUE."""
    for entry in settings:
        if "=" not in entry:
            raise click.BadParameter(f"{entry!r} is not KEY=VALUE")
    return list(settings)

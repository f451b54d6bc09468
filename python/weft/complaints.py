"""The messages of commands about wrong input, and their exit status."""

from __future__ import annotations

import errno
import json
import os
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn

import click

from weft import _seam
from weft.folder import FolderError
from weft.progress import STOPPED
from weft.saving import INPUT_ERROR
from weft.topology import TopologyError

if TYPE_CHECKING:
    from collections.abc import Iterator

# The errors of an output that was opened but accepts no more data.
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


@contextmanager
def complaints(as_json: bool) -> Iterator[None]:
    """Say what is wrong with the input as the core says it, and exit with 2."""
    try:
        yield
    except BrokenPipeError:  # the reader of our output has left; click ends quietly
        raise
    except FolderError as error:
        _complain(str(error), {"message": str(error)}, as_json)
    except OSError as error:
        # Messages about writing to files name the file.
        printing = error.filename is None and error.errno in _FULL
        told = f"standard output cannot be written: {error.strerror}" if printing else str(error)
        if printing:
            _forget_output()
        _complain(told, {"message": told}, as_json)
    except Exception as error:
        from weft.across.workloads import ComparisonError  # noqa: PLC0415 (a run does without)
        from weft.ranks import RanksError  # noqa: PLC0415
        from weft.spread import SweepError  # noqa: PLC0415

        if isinstance(error, _seam.error_type()):
            _complain(str(error), _error_object(error), as_json)
        if isinstance(error, (ComparisonError, RanksError, SweepError, TopologyError)):
            _complain(str(error), {"message": str(error)}, as_json)
        raise
    except KeyboardInterrupt:
        click.echo("stopped", err=True)
        sys.exit(STOPPED)


def _complain(text: str, described: dict[str, Any], as_json: bool) -> NoReturn:
    if as_json:
        click.echo(json.dumps({"error": described}, ensure_ascii=False))
    else:
        click.echo(text, err=True)
    sys.exit(INPUT_ERROR)


def _forget_output() -> None:
    """Have what is left in the buffer of standard output go nowhere.

    Python writes it when it ends, and would exit with a code of its own where that fails.
    """
    with suppress(OSError, ValueError):  # what stands in its place may be no file
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _error_object(error: BaseException) -> dict[str, Any]:
    names = ("file", "line", "column", "key", "value", "accepted", "message")
    return {name: getattr(error, name, None) for name in names}

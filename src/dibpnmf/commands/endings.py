"""How a command ends: exit codes, and errors in one line.

0 done; 1 the disk or the memory failed (what was saved is kept); 2 wrong input; 3 not converged
(results kept); 130 interrupted (results kept).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import click

DONE, FAILED, WRONG_INPUT, NOT_CONVERGED, INTERRUPTED = 0, 1, 2, 3, 130


@contextmanager
def in_one_line() -> Iterator[None]:
    """Turn errors into one line on stderr and an exit code."""
    try:
        yield
    except KeyboardInterrupt as error:
        _end(str(error) or "interrupted", INTERRUPTED)
    except MemoryError:
        _end("not enough memory for data of this size", FAILED)
    except OSError as error:
        _end(str(error), FAILED)
    except (ValueError, TypeError) as error:
        _end(str(error), WRONG_INPUT)


def _end(message: str, code: int) -> NoReturn:
    from dibpnmf.commands.options import in_options
    from dibpnmf.files.table import one_line

    click.echo(f"Error: {in_options(one_line(message))}", err=True)
    click.get_current_context().exit(code)
    raise AssertionError

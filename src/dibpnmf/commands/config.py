"""Options from a TOML file; those on the command line win."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import click

_TABLE = "prior_params"


def read_config(ctx: click.Context, param: click.Parameter, path: Path | None) -> Path | None:
    """Make a file's keys the defaults of the command's options."""
    if path is None:
        return None
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise click.BadParameter(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"{path} is not TOML: {error}") from error
    known = {
        option.name: option
        for option in ctx.command.params
        if isinstance(option, click.Option) and option.name not in ("config", "help")
    }
    defaults: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name == _TABLE:
            defaults["prior_param"] = _pairs(path, value)
        elif name not in known:
            names = ", ".join(sorted(str(n) for n in known if n != "prior_param"))
            raise click.BadParameter(f"{path} has the key {key!r}; it may have {names}, {_TABLE}")
        else:
            defaults[name] = _text(path, key, value, bool(known[name].multiple))
    ctx.default_map = {**(ctx.default_map or {}), **defaults}
    return path


def _pairs(path: Path, value: Any) -> list[str]:
    if not isinstance(value, dict):
        raise click.BadParameter(f"{path}: {_TABLE} must be a table of numbers; got {value!r}")
    return [f"{name}={inner}" for name, inner in value.items()]


def _text(path: Path, key: str, value: Any, multiple: bool) -> Any:
    """Text, as on the command line, so that the same checks are made (1.5 is no integer)."""
    if isinstance(value, list) and multiple and not any(isinstance(v, (list, dict)) for v in value):
        return [str(inner) for inner in value]
    if isinstance(value, (list, dict)):
        raise click.BadParameter(f"{path}: {key} must be a single value; got {value!r}")
    return [str(value)] if multiple else str(value)

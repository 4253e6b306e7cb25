"""Commands that are imported when they are called for."""

from __future__ import annotations

from importlib import import_module

import click

# Each is the function of its own name in dibpnmf.commands.NAME.
COMMANDS = ("fit", "report", "predict", "export", "info")


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports them on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order a user meets them."""
        return [*COMMANDS, *(name for name in super().list_commands(ctx) if name not in COMMANDS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name in COMMANDS:
            command = getattr(import_module(f"dibpnmf.commands.{cmd_name}"), cmd_name)
            assert isinstance(command, click.Command)
            return command
        return super().get_command(ctx, cmd_name)

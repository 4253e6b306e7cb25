"""Data files, read by what their names end in."""

from __future__ import annotations

from dibpnmf.files.reading import FORMATS, read_table
from dibpnmf.files.table import FileError, Table

__all__ = ["FORMATS", "FileError", "Table", "read_table"]

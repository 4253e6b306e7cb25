"""Names of rows and columns as they are shown: text, not empty, no two alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dibpnmf.estimator import DIBPNMF

_LONGEST = 120  # characters shown of a name


def row_names(model: DIBPNMF, data: Any, given: Iterable[Any] | None) -> list[str]:
    """Names given, those of a DataFrame, or numbers from 1."""
    if given is None:
        given = getattr(data, "index", None) if hasattr(data, "columns") else None
    return _shown("row_names", "row", given, model._shape[0])


def column_names(
    model: DIBPNMF, data: Any, given: Iterable[Any] | None, image: tuple[int, int] | None
) -> list[str]:
    """Names given, those of the fitted DataFrame or of the data, pixels, or numbers from 1."""
    if given is None:
        given = getattr(model, "feature_names_in_", None)
    if given is None and image is not None:
        given = [f"pixel ({i + 1}, {j + 1})" for i in range(image[0]) for j in range(image[1])]
    if given is None:
        given = getattr(data, "columns", None)
    return _shown("column_names", "column", given, model._shape[1])


def _shown(argument: str, kind: str, given: Iterable[Any] | None, n: int) -> list[str]:
    if given is None:
        return [f"{kind} {i + 1}" for i in range(n)]
    names = [_text(name) for name in given]
    if len(names) != n:
        raise ValueError(f"{argument} must have one name for each of the {n} {kind}s; "
                         f"got {len(names)} names.")  # fmt: skip
    seen = Counter(names)
    return [
        name if name and seen[name] == 1 else f"{name or 'no name'} ({kind} {i + 1})"
        for i, name in enumerate(names)
    ]


def _text(name: Any) -> str:
    """One line of characters that UTF-8 has, cut if it is very long."""
    text = " ".join(str(name).split()).encode("utf-8", "replace").decode()
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"

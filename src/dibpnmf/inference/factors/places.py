"""Places between sticks: where the column of a new factor may be put in, or one be taken out.

The points log μ_1 > log μ_2 > ... are a walk with independent steps. Place p is the step to point
p: a new point divides it in two, and the last point is dropped; or a point is taken out, the steps
to it and from it become one, and a new last step is drawn from the prior. All other points, and
so the odds of all other columns, stay.

For a prior that allows for this `places_of` returns a NamedTuple with the arrays of its state, to
be changed in place, and with a line of ``notes`` for each of the K places and one for the place
that a point leaves behind. The other functions are implemented for each such NamedTuple. n0 and n1
are the numbers of entries that the column of a new factor is expected to have on either side.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NamedTuple

from dibpnmf._dispatch import hook


@singledispatch
def places_of(prior: Any, state: Any, sizes: Any) -> NamedTuple | None:
    """Places between the sticks of a prior's state; None if it has no such places."""
    return None


note_places, implements_note_places = hook("note_places", "Take notes on all places: (places).")
note_merged, implements_note_merged = hook(
    "note_merged", "Note, as place K, what would be left if the point at f went: (places, f)."
)
weigh_places, implements_weigh_places = hook(
    "weigh_places",
    "Write how well a column with n0 and n1 entries fits in each place and place K, as logarithms: "
    "(places, n0, n1, out).",
)
draw_point, implements_draw_point = hook(
    "draw_point", "Draw a point in place p for such a column: (places, p, n0, n1, s)."
)
read_point, implements_read_point = hook(
    "read_point", "Take the point at f for one in place K: (places, f, n0, n1)."
)
point_odds, implements_point_odds = hook(
    "point_odds", "Log odds of the point, on both sides: (places)."
)
log_point, implements_log_point = hook(
    "log_point",
    "Log density of the steps with the point over that without it and that of drawing it; the "
    "last step is left out, since it is drawn from the prior: (places).",
)
draw_last, implements_draw_last = hook(
    "draw_last", "Draw a last step for when some point has gone; its log odds: (places, s)."
)
insert_point, implements_insert_point = hook(
    "insert_point", "Put the point in place p: (places, p)."
)
remove_point, implements_remove_point = hook(
    "remove_point", "Take the point at f out and append the last step: (places, f)."
)

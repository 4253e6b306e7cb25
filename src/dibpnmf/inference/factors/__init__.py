"""Found a factor beside others that it relieves, or end one in their favour: K moves.

On a small matrix with zeros a factor is a rectangle without zeros, near enough, and every other
cell has to be covered by one. Entry by entry a cover hardly changes, and factors neither appear
nor disappear but through those of a cell or two. Here a factor comes or goes as a whole, while
others, the receivers, give up or take over its cells. As seen from the side whose rows they are,

- "pair": a new factor f has the rows of two receivers that share none. It may take over any of
  the cells in which none of these rows has a zero, here called open.
- "twin": f has the rows of one receiver; the two divide the open cells between them.
- "loan": no factor comes or goes. The rows of a factor g together take up factor f, or leave it,
  and g gives up, or takes over, cells of f.

Each is the other way round, too. Given A the rows of X are independent, and given x_nf so are the
receivers: entries (n, f), then those of the receivers, are drawn for every open n from proposals
that are normal densities of the log about a guess with a share of the prior, and odds of "on" that
for f have the receivers' entries summed out, near enough. So which of the cells f takes over need
not be guessed: the ratio, Eq. (39)-(41), is that of sums over all ways to divide them.

Masks of unseen columns are summed out of all of these (see `unseen`), and afterwards have to be
drawn anew. A new factor comes with sticks that fit it (see `places`): those of an unseen column
would not.

With these masks drawn, single rows leave a factor for another one (see `exchanges`).
"""

from dibpnmf.inference.factors import gp_places, pair_places  # noqa: F401 - registered by this
from dibpnmf.inference.factors.board import MISSING
from dibpnmf.inference.factors.exchanges import EXCHANGES, exchange_factors
from dibpnmf.inference.factors.moves import TRIES, have_zeros, may_serve, move_factors
from dibpnmf.inference.factors.places import places_of

__all__ = [
    "EXCHANGES", "MISSING", "TRIES", "exchange_factors", "have_zeros", "may_serve", "move_factors",
    "places_of",
]  # fmt: skip

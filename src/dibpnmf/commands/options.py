"""Parameters of DIBPNMF by the names of their options."""

from __future__ import annotations

import re

PARAMETERS = {
    "prior": "prior", "likelihood": "likelihood", "loadings": "loadings", "scheme": "scheme",
    "components": "n_components",
    "max_components": "max_components", "epsilon": "epsilon", "warmup": "n_warmup",
    "draws": "n_draws", "thin": "n_thin", "chains": "n_chains", "init": "init", "seed":
    "random_state", "jobs": "n_jobs", "prior_param": "prior_params", "min_share": "min_share",
    "checkpoint_every": "checkpoint_every", "missing": "zeros",
}  # fmt: skip

_SAME = {"prior", "likelihood", "loadings", "init", "zeros"}  # words of plain English
_NAMES = "|".join(sorted(set(PARAMETERS.values()) - _SAME))
# What is followed by its R-hat is a quantity of the posterior, not a parameter.
_WORDS = re.compile(rf"(?<!-)\b({_NAMES})\b(?! \((?:R-hat|too few))(=?)")
_QUOTED = re.compile(r"\blikelihood='(\w+)'|(?<=[ ,])'(gaussian|poisson|exponential)'")
_OPTIONS = {name: "--" + option.replace("_", "-") for option, name in PARAMETERS.items()}


def in_options(text: str) -> str:
    """Say in options what a message says in parameters: n_draws is --draws here."""
    text = text.replace("zeros='missing'", "--missing absent")
    text = _QUOTED.sub(lambda m: f"--likelihood {m[1] or m[2]}", text)
    return _WORDS.sub(lambda m: _OPTIONS[m[1]] + (" " if m[2] else ""), text)

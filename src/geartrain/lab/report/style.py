"""Colours and names that all figures share."""

from __future__ import annotations

# Okabe and Ito's colours, which the colour-blind can tell apart; one for a family of methods.
_COLOURS = {
    "SAE-QN": "#009E73",
    "R-SAE": "#56B4E9",
    "SAE": "#0072B2",
    "AFB": "#56B4E9",
    "AGS": "#D55E00",
    "FCD": "#D55E00",
    "FGM": "#E69F00",
    "Katyusha": "#CC79A7",
    "L-BFGS": "#444444",
}

# For curves that are no methods.
PALETTE = ("#0072B2", "#D55E00", "#009E73")


def colour(method: str) -> str:
    """Colour of a curve."""
    return next((c for name, c in _COLOURS.items() if method.startswith(name)), "#888888")


def dashed(method: str) -> bool:
    """Whether the curve is the paper's own setting or a baseline without restarts."""
    return method.endswith("paper") or method in ("FGM", "FCD")

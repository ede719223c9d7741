"""One colour and one dash per method, shared by all figures."""

from __future__ import annotations

# Okabe and Ito's colours, which colour-blind readers can tell apart, made a little lighter where a
# dark background asks for it; one per family of methods.
_COLOURS = {
    "pqn": "#009E73",
    "R-SAE": "#45A7E0",
    "SAE": "#1F78B8",
    "AFB": "#9467BD",
    "AGS": "#D55E00",
    "FCD": "#D6455B",
    "FGM": "#E69F00",
    "Katyusha": "#CC79A7",
    "L-BFGS": "#7F7F7F",
}
# For curves that are not methods.
PALETTE = ("#1F78B8", "#D55E00", "#009E73")
H_COLOUR, G_COLOUR = "#1F78B8", "#E69F00"
OBSERVED = "#9A9A9A"


def colour(method: str) -> str:
    """Colour of a method's curves."""
    return next((c for name, c in _COLOURS.items() if method.startswith(name)), "#888888")


def dashed(method: str) -> bool:
    """Whether the curve is a setting of the paper or a baseline without restarts."""
    return method.endswith("(paper)") or method in ("FGM", "FCD")


def translucent(colour: str, alpha: float) -> str:
    """The colour as CSS with an opacity."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha:g})"

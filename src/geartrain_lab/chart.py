"""The description of a figure; `static` and `report.interactive` draw it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

GAP = "f \N{MINUS SIGN} f*"
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
PALETTE = ("#1F78B8", "#D55E00", "#009E73", "#CC79A7", "#7F7F7F", "#E69F00")
OBSERVED = "#9A9A9A"


def colour(method: str) -> str:
    return next((c for name, c in _COLOURS.items() if method.startswith(name)), "#888888")


def dashed(method: str) -> bool:
    """Whether the curve is a setting of the paper or a baseline without restarts."""
    return method.endswith("(paper)") or method in ("FGM", "FCD")


def translucent(colour: str, alpha: float) -> str:
    """The colour as CSS with an opacity."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha:g})"


@dataclass(frozen=True)
class Curve:
    """A line, or the dots or bars of a density.

    The curve of a method has medians over seeds, and the quartiles `low` and `high` where there are
    several runs (high is inf where a quarter of the runs did not get there).
    """

    name: str
    x: Any
    y: Any
    low: Any = None
    high: Any = None
    z: Any = None
    colour: str = ""
    mark: str = "line"  # or "marked", "step", "dot", "bar"
    labels: Sequence[str] = ()  # of the points
    dash: bool = False

    @property
    def paint(self) -> str:
        """Its colour; that of the method if none is said."""
        return self.colour or colour(self.name)

    @property
    def dashed(self) -> bool:
        """Whether the line is dashed, as those of some methods always are."""
        return self.dash or dashed(self.name)


@dataclass(frozen=True)
class Chart:
    """One pair of axes; in space where its curves have a `z`."""

    title: str
    x: str
    y: str
    curves: Sequence[Curve]
    log: str = "xy"  # the axes that are logarithmic
    goal: float | None = None  # a line at this height
    upright: bool = False  # whether the quartiles are those of y
    ticks: Sequence[str] = ()  # labels of the places 1, 2, ... on the axis of x

    @property
    def in_space(self) -> bool:
        """Whether there is a third axis, which shows f - f*."""
        return any(c.z is not None for c in self.curves)

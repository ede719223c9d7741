r"""A log-density with a Gaussian prior on observed counts, the problem labelled bayes in the paper.

.. math::
    \max_x \sum_k \langle a(z_k), x \rangle - m \ln \sum_z \exp \langle a(z), x \rangle
    - \tfrac12 \|G x\|^2

over observations z_1 .. z_m, divided by -m: h(x) = ln sum_z exp(<a(z), x>) - <c, x> with c the mean
of a(z_k), and g(x) = |G x|^2/(2 m). The fitted density is exp(<a(z), x>), normalised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from geartrain.datasets import load_counts, load_old_faithful
from geartrain.oracles import LogSumExp, Quadratic
from geartrain.oracles.protocols import Vector

BINS = 60
TOP_WORDS = 500
LONGEST_WORD = 15
SMOOTHNESS = 30.0  # weight of squared second differences in the prior of a histogram


@dataclass(frozen=True)
class Observed:
    """Counts on a finite support, features of its points, and the prior."""

    name: str
    caption: str
    axis: str  # title of the horizontal axis
    points: Sequence[str]
    position: Vector  # of the points on a horizontal axis
    counts: Any
    A: Any  # one row of features a(z) per point z
    G2: Any

    def terms(self) -> tuple[LogSumExp, Quadratic]:
        """Terms (h, g) of the posterior, divided by the number of observations."""
        total = float(self.counts.sum())
        return LogSumExp(self.A, c=self.A.T @ (self.counts / total)), Quadratic(self.G2 / total)

    def density(self, x: Vector) -> Vector:
        """The density exp(<a(z), x>), normalised."""
        scores = self.A @ x
        density = np.exp(scores - scores.max())
        return density / density.sum()


def text8_characters(folder: str | Path | None) -> Observed:
    """One parameter per character, with a standard normal prior."""
    points, counts = load_counts("text8_char_counts.tsv", folder)
    n = len(points)
    caption = f"text8, {n} characters, {counts.sum():,} of them"
    A, G2 = sparse.eye_array(n, format="csr"), sparse.eye_array(n, format="csr")
    names = [p.strip("'").replace(" ", "blank") for p in points]
    return Observed(
        "text8 characters", caption, "character", names, np.arange(1.0, n + 1), counts, A, G2
    )


def text8_words(folder: str | Path | None) -> Observed:
    """Features of the spelling, and one for each of the 500 most frequent words."""
    points, counts = load_counts("text8_word_counts.tsv", folder)
    letters = "abcdefghijklmnopqrstuvwxyz"
    n_spelling = LONGEST_WORD + 3 * len(letters)
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    for k, word in enumerate(points):
        features = {min(len(word), LONGEST_WORD) - 1: 1.0}
        for place, text in enumerate((word[:1], word[-1:], word)):
            for letter in text:
                if letter in letters:
                    j = LONGEST_WORD + place * len(letters) + letters.index(letter)
                    features[j] = features.get(j, 0.0) + 1.0
        if k < TOP_WORDS:
            features[n_spelling + k] = 1.0
        rows += [k] * len(features)
        columns += features.keys()
        values += features.values()
    n = n_spelling + TOP_WORDS
    A = sparse.csr_array((values, (rows, columns)), shape=(len(points), n))
    caption = f"text8, {len(points):,} words by spelling ({n} features), {counts.sum():,} of them"
    position = np.arange(1.0, len(points) + 1)
    return Observed(
        "text8 words", caption, "rank of the word", points, position, counts, A, sparse.eye_array(n)
    )


def old_faithful(folder: str | Path | None) -> Observed:
    """Durations of eruptions in 60 bins; the prior is on second differences."""
    durations = load_old_faithful(folder).X[:, 0]
    return _histogram("Old Faithful", "eruptions", "minutes", durations, (1.3, 5.4))


def breast_cancer() -> Observed:
    """Mean radii of tumours, a table that scikit-learn ships, in 60 bins; the same prior."""
    from sklearn.datasets import load_breast_cancer

    radii = load_breast_cancer().data[:, 0]
    return _histogram("breast cancer", "tumours", "mean radius", radii, (6.0, 30.0))


def _histogram(
    name: str, things: str, axis: str, values: Vector, span: tuple[float, float]
) -> Observed:
    counts, edges = np.histogram(values, bins=BINS, range=span)
    middle = 0.5 * (edges[:-1] + edges[1:])
    second = np.diff(np.eye(BINS), n=2, axis=0)
    G2 = SMOOTHNESS * (second.T @ second) + 1e-3 * np.eye(BINS)
    caption = f"{name}, {counts.sum()} {things}, {BINS} bins"
    points = [f"{t:.2f}" for t in middle]
    return Observed(name, caption, axis, points, middle, counts, np.eye(BINS), G2)

r"""The problem labelled bayes on observed counts: a log-density with a Gaussian prior.

max sum_k <a(z_k), x> - m ln sum_z exp(<a(z), x>) - 1/2 \|G x\|^2 over observations z_1 .. z_m,
divided by -m: h(x) = ln sum_z exp(<a(z), x>) - <c, x> with c the mean of a(z_k), and g(x) =
\|G x\|^2/(2 m). The fitted density is exp(<a(z), x>), normalised.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import geartrain as gt
from geartrain.datasets import load_counts, load_old_faithful
from geartrain.lab.runner import minimize
from geartrain.lab.store import Store, config_hash, data_hash, machine, pandas
from geartrain.oracles.protocols import Vector

EXPERIMENT = "densities"
BINS = 60
TOP_WORDS = 500
LONGEST_WORD = 15
# Of the Old Faithful prior: weight of squared second differences of the log-density.
SMOOTHNESS = 30.0
TOL = 1e-5


@dataclass(frozen=True)
class Observed:
    """Counts on a finite support, features of its points, and the prior."""

    name: str
    caption: str
    points: Sequence[str]
    position: Vector  # for the horizontal axis
    counts: Any
    A: Any  # one row of features a(z) for every point
    G2: Any


def text8_characters(folder: str | Path | None) -> Observed:
    """One parameter for every character, standard normal prior."""
    points, counts = load_counts("text8_char_counts.tsv", folder)
    n = len(points)
    caption = f"text8, {n} characters, {counts.sum():,} of them"
    A, G2 = sparse.eye_array(n, format="csr"), sparse.eye_array(n, format="csr")
    names = [p.strip("'").replace(" ", "blank") for p in points]
    return Observed("text8 characters", caption, names, np.arange(1.0, n + 1), counts, A, G2)


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
    return Observed("text8 words", caption, points, position, counts, A, sparse.eye_array(n))


def old_faithful(folder: str | Path | None) -> Observed:
    """Durations of eruptions in 60 bins; the prior is on second differences."""
    durations = load_old_faithful(folder).X[:, 0]
    counts, edges = np.histogram(durations, bins=BINS, range=(1.3, 5.4))
    middle = 0.5 * (edges[:-1] + edges[1:])
    second = np.diff(np.eye(BINS), n=2, axis=0)
    G2 = SMOOTHNESS * (second.T @ second) + 1e-3 * np.eye(BINS)
    caption = f"Old Faithful, {counts.sum()} eruptions, {BINS} bins"
    names = [f"{t:.2f}" for t in middle]
    return Observed("Old Faithful", caption, names, middle, counts, np.eye(BINS), G2)


SOURCES: tuple[Callable[[str | Path | None], Observed], ...] = (
    text8_characters,
    text8_words,
    old_faithful,
)
METHODS = {"SAE-QN": gt.SAEQN, "L-BFGS": gt.ScipyLBFGS}


def fit(observed: Observed) -> tuple[Vector, dict[str, Any]]:
    """Fitted density, and what the methods asked for."""
    total = float(observed.counts.sum())
    h = gt.LogSumExp(observed.A, c=observed.A.T @ (observed.counts / total))
    g = gt.Quadratic(observed.G2 / total)
    asked, x = {}, np.empty(0)
    for name, method in reversed(METHODS.items()):
        res = minimize(h, g, method=method(), tol=TOL, L_h=h.L, L_g=g.L, max_iter=20_000)
        x = res.x
        asked[name] = {"h.grad": res.calls["h.grad"], "g.grad": res.calls["g.grad"]}
    scores = observed.A @ x
    density = np.exp(scores - scores.max())
    return density / density.sum(), asked


def tables(folder: str | Path | None, store: Store) -> tuple[Any, list[str]]:
    """Table of observed and fitted densities, and a sentence for each set that is missing."""
    frames, missing = [], []
    for source in SOURCES:
        try:
            observed = source(folder)
        except FileNotFoundError as error:
            missing.append(
                f"The density of {source.__name__.replace('_', ' ')} is left out: {error}."
            )
            continue
        frames.append(_table(observed, store))
    return (pandas().concat(frames, ignore_index=True) if frames else None), missing


def _table(observed: Observed, store: Store) -> Any:
    name = f"densities-{observed.name.replace(' ', '-').lower()}"
    settings = {
        "tol": TOL,
        "n": observed.A.shape[1],
        "prior": float(abs(observed.G2).sum()),
        "data_hash": data_hash(observed.counts),
    }
    config = config_hash({**settings, "name": name, "version": gt.__version__})
    known = store.get(name, config)
    if known is not None:
        return known
    density, asked = fit(observed)
    table = pandas().DataFrame(
        {
            "experiment": EXPERIMENT,
            "case": observed.name,
            "data": observed.caption,
            "settings": json.dumps({**settings, "calls": asked}),
            "version": gt.__version__,
            "machine": machine(),
            "point": list(observed.points),
            "position": observed.position,
            "observed": observed.counts / observed.counts.sum(),
            "fitted": density,
        }
    )
    return store.put(name, config, table)

"""Densities fitted to observed counts: text8 and Old Faithful."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import geartrain as gt
from geartrain.oracles.protocols import Vector
from geartrain_lab.harness import run_whole
from geartrain_lab.problems.counts import (
    Observed,
    breast_cancer,
    old_faithful,
    text8_characters,
    text8_words,
)
from geartrain_lab.store import Store, config_hash, data_hash, machine, pandas

EXPERIMENT = "densities"
TOL = 1e-5
SOURCES: dict[str, Callable[[str | Path | None], Observed]] = {
    "text8 characters": text8_characters,
    "text8 words": text8_words,
    "Old Faithful": old_faithful,
}
METHODS = {
    "L-BFGS": gt.ScipyLBFGS,
    "pqn": gt.methods.ProximalQuasiNewton,
}  # the density is that of the last one


def fit(observed: Observed) -> tuple[Vector, dict[str, Any]]:
    """The fitted density, and the gradients that each method asked for."""
    h, g = observed.terms()
    asked = {}
    for name, method in METHODS.items():
        res = run_whole(h, g, method=method(), tol=TOL, L_h=h.L, L_g=g.L, max_iter=20_000)
        asked[name] = {"h.grad": res.calls["h.grad"], "g.grad": res.calls["g.grad"]}
    return observed.density(res.x), asked


def tables(folder: str | Path | None, store: Store) -> tuple[Any, list[str]]:
    """Table of observed and fitted densities, and the names of the data sets that are missing.

    If all of them are missing, a data set that scikit-learn ships takes their place.
    """
    found, missing = [], []
    for name, source in SOURCES.items():
        try:
            found.append(source(folder))
        except FileNotFoundError:
            missing.append(name)
    if not found:
        with contextlib.suppress(ImportError):
            found.append(breast_cancer())
    frames = [_table(observed, store) for observed in found]
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
            "axis": observed.axis,
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

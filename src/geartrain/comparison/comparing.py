"""``compare(h, g, methods=[...])``."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from geartrain.comparison.table import CANNOT_RUN, ComparedRun, Comparison
from geartrain.core.contracts import AnyMethod
from geartrain.core.history import as_record
from geartrain.core.status import Status
from geartrain.minimize import minimize, takes_inner
from geartrain.oracles.protocols import AnyTerm, MissingOracle
from geartrain.oracles.quadratic import Quadratic
from geartrain.oracles.validation import as_number, as_whole
from geartrain.problem import MissingConstant

# Arguments of `minimize` that belong to one run.
_NOT_SHARED = ("method", "seed", "state", "checkpoint")


def compare(
    h: AnyTerm,
    g: AnyTerm,
    x0: Any = None,
    *,
    methods: Iterable[str | AnyMethod] | Mapping[str, str | AnyMethod] = ("auto", "lbfgs"),
    seeds: int | Sequence[int] = 1,
    f_star: float | None = None,
    **options: Any,
) -> Comparison:
    """Minimise f = h + g by several methods from the same point, by the same stopping rule.

    f is recorded after every outer iteration without being counted. A method that cannot run on
    this problem, because it needs a constant or an answer that nobody gives, has a row that says
    so.

    Parameters
    ----------
    h, g, x0
        As in `minimize`.
    methods : list or dict
        Names or objects as in `minimize`, or a dict from the name in the table to one of them.
    seeds : int or list of int
        The number of runs per method, or their seeds. Randomised methods differ in their calls,
        the others in their seconds only.
    f_star : float, optional
        The minimum of f; if not given, the smallest value that any of the runs has found, and the
        table and the figure say so.
    **options
        Further arguments of `minimize` for all runs: tol, stop, prices, L_h, verbose, ...; `inner`
        is for the methods that have an inner method.

    Returns
    -------
    Comparison
        A table with ``plot``, ``to_pandas``, ``to_latex``, ``to_csv`` and ``save``.

    Examples
    --------
    >>> import numpy as np, geartrain as gt
    >>> rng = np.random.default_rng(0)
    >>> A = rng.standard_normal((300, 50))
    >>> h = gt.LinearModel(A, np.sign(A[:, 0] + 0.5), loss="logistic")
    >>> g = gt.Quadratic(np.diag(np.logspace(-2, 3, 50)))
    >>> table = gt.compare(h, g, methods=["pqn", "lbfgs", "fgm"], tol=1e-6)
    >>> table.methods
    ('pqn', 'lbfgs', 'fgm')
    >>> calls = table.to_pandas()["h.grad"]
    >>> bool(calls["pqn"] < calls["lbfgs"] < calls["fgm"])
    True
    """
    for name in _NOT_SHARED:
        if name in options:
            raise TypeError(f"{name} belongs to a single run and is no argument of compare")
    if f_star is not None:
        as_number(f_star, "f_star")
    options["record"] = ("f", *(c for c in as_record(options.get("record")) if c != "f"))
    numbers = range(as_whole(seeds, "seeds", 1)) if isinstance(seeds, int) else list(seeds)
    named = _labelled(methods)
    for method in named.values():
        _warm_up(method)
    trials = [
        _trial(label, seed, h, g, x0, method=method, seed=seed, **options)
        for label, method in named.items()
        for seed in numbers
    ]
    return Comparison(trials, f_star, options.get("prices"))


def _warm_up(method: str | AnyMethod) -> None:
    """Import and compile what a method needs, so that its first run is not charged with that."""
    h, g = Quadratic(np.eye(3), np.ones(3)), Quadratic(np.diag([1.0, 10.0, 100.0]))
    with contextlib.suppress(Exception):  # if it cannot run here, then without a warm-up
        minimize(h, g, method=method, max_iter=3)


def _labelled(methods: Any) -> dict[str, str | AnyMethod]:
    """The methods by the name that they have in the table."""
    if isinstance(methods, str):
        methods = [methods]
    if isinstance(methods, Mapping):
        named = {str(label): method for label, method in methods.items()}
    else:
        named = {}
        for method in methods:
            label = method if isinstance(method, str) else repr(method)
            if label in named:
                raise ValueError(f"{label} is given twice; give a dict of names and methods")
            named[label] = method
    if not named:
        raise ValueError("methods is empty: give at least one method")
    return named


def _trial(label: str, number: int, *terms: Any, **options: Any) -> ComparedRun:
    if not takes_inner(options["method"]):
        options.pop("inner", None)
    try:
        res = minimize(*terms, **options)
    except (MissingConstant, MissingOracle) as error:
        return ComparedRun(label, number, CANNOT_RUN, str(error))
    return ComparedRun(
        method=label,
        seed=number,
        status=Status(res.status).name,
        message=res.message,
        f=float(res.fun),
        grad_norm=float(res.get("grad_norm", math.nan)),
        iterations=int(res.nit),
        calls={key: int(count) for key, count in res.calls.items()},
        columns=tuple(res.history),
        rows=np.array(res.history.rows, dtype=float),
        x=np.array(res.x),
    )

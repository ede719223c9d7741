"""The front door: ``minimize(h, g)``."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from geartrain.core.calling_back import Callback
from geartrain.core.contracts import AnyMethod, InnerMethod
from geartrain.core.run_state import RunState
from geartrain.core.stopping import Rule
from geartrain.geometry import Geometry
from geartrain.launch import called, solve
from geartrain.oracles.protocols import AnyTerm
from geartrain.problem import Sum
from geartrain.terms import Smoothness, Terms, check_same_terms

if TYPE_CHECKING:
    from geartrain.core.result import Result

# Arguments of SciPy's function of this name, and what takes their place.
_OF_SCIPY = {
    "maxiter": "max_iter= limits the outer iterations",
    "options": "max_iter=, tol= and verbose= are arguments of their own",
    "disp": "verbose=1 prints, progress=True shows a bar",
    "gtol": "tol= is relative to the gradient at x0; stop=gt.stop.Gradient(abs=...) is absolute",
    "ftol": "tol= is for the gradient; stop=gt.stop.Gap(eps) is for f - f*",
    "xtol": "tol= is for the gradient",
    "jac": "a gradient belongs to its term, gt.Term(fun, jac)",
    "hess": "second derivatives belong to their term, gt.Term(..., products=...)",
    "args": "further arguments belong to their term, gt.Term.from_scipy(fun, jac, args)",
}


def minimize(
    h: AnyTerm,
    g: AnyTerm,
    x0: Any = None,
    *,
    method: str | AnyMethod = "auto",
    inner: str | InnerMethod = "auto",
    stop: Rule | None = None,
    tol: float = 1e-6,
    max_iter: int | None = None,
    L_h: Smoothness = None,
    L_g: float | None = None,
    mu: float | None = None,
    prices: Mapping[str, float] | None = None,
    geometry: Geometry | None = None,
    seed: int = 0,
    callback: Callback | Sequence[Callback] | None = None,
    progress: bool = False,
    verbose: int = 0,
    record: str | Sequence[str] | None = None,
    state: RunState | None = None,
    checkpoint: Any = None,
    constraints: Any = None,
    bounds: Any = None,
    **unknown: Any,
) -> Result:
    """Minimise f(x) = h(x) + g(x), asking each term only as often as it needs.

    Parameters
    ----------
    h, g : terms
        `geartrain.Quadratic`, `geartrain.LinearModel`, `geartrain.LogSumExp`, `geartrain.Term`,
        sums of these, or any object that answers in their way. h is the one to be asked rarely.
        h may be a list of terms, which are then called h1, h2, ..., or a dict that gives them
        names, such as ``{"simulator": h1, "cluster": h2}``; f is the sum of all of them. g may have
        one non-smooth term such as `geartrain.L1`, `geartrain.Box` (or both of them) or
        `geartrain.Linear`, added to it or alone: its
        proximal steps are counted as ``g.prox``, and gradients of f are subgradients of least norm.
        It may also be a set with ``lmo(d)`` and ``diameter``, counted as ``g.lmo``, which the
        methods "cgs" and "frank-wolfe" take.
    x0 : array, optional
        Starting point; zero if not given. It may have any shape, e.g. that of an image: functions
        of yours get x in that shape, and ``res.x`` has it, too. If it is in single precision and
        all terms are functions of yours, these get x in single precision, and ``res.x`` is, too;
        the method computes in double precision in any case. A point where a non-smooth term is
        infinite is replaced by its proximal step, and a note says so. A set with linear
        minimisations alone has none: there the run starts at a vertex, unless the set has a
        ``value`` that is finite at x0.
    method : str or method
        "auto" (see `geartrain.methods.Planned`), a name of
        ``geartrain.methods.registry.METHODS``, or an object such as ``gt.SAE(sigma=0.5)``.
    inner : str or inner method
        For a method given by name: a name of ``geartrain.methods.registry.INNER``, or "auto".
    stop : rule, optional
        From `geartrain.stop`; replaces `tol`.
    tol : float
        Stop at ``|grad f(x)| <= tol |grad f(x0)|``. If x0 is close to a solution, so that the
        gradients of h and g nearly cancel there, the smaller one of their norms takes the place of
        ``|grad f(x0)|``; see `geartrain.stop.Tolerance`. For "cgs" and "frank-wolfe", which know no
        shortest subgradient, it is a proven bound on f - f* over the Frank-Wolfe gap at x0.
    max_iter : int, optional
        Limit of outer iterations; 100,000 if not given.
    L_h, L_g, mu : float, optional
        Smoothness of the terms and strong convexity of their sum, where the terms do not know.
        For several terms L_h is a list with one number (or None) per term, or a dict by name.
    prices : dict, optional
        What a gradient costs, e.g. ``{"h": 100.0, "g": 1.0}``, for method "auto"; other calls by
        their keys in ``res.calls``, such as ``"g.prox"``. If not given, the seconds that are
        measured.
    geometry : geometry, optional
        The inner product to work in, from `geartrain.geometry`: ``RKHS``, ``Preconditioned``,
        ``Diagonal`` or ``LowRankPlusDiagonal``; Euclidean if not given. Constants, gradients and
        their norms, `tol` included, are those of that inner product.
    seed : int
        Of the randomised methods.
    callback : callable or list, optional
        ``callback(x)``, or ``callback(intermediate_result)`` by that name; a true answer or
        StopIteration ends the run.
    progress : bool
        Show a progress bar: a line on stderr, or a bar in a notebook.
    verbose : int
        0 prints nothing, 1 prints a line at the beginning and a summary at the end, 2 prints a line
        per outer iteration as well. The same lines go to the logger ``"geartrain"``.
    record : "f", "grad_norm" or both, optional
        Columns of the history that are evaluated wherever the run does not know them. The
        evaluations are not counted; a note of ``res.history.notes`` says how many there were.
    state : optional
        ``res.state`` of an earlier run, to go on from there; its seed is kept.
    checkpoint : path or `geartrain.callbacks.Checkpoint`, optional
        Save the run there every 30 seconds (or ``every=``) and at its end, for `resume`.
    constraints : `scipy.optimize.LinearConstraint` or a list of them, optional
        lower <= A x <= upper; the same as adding `geartrain.Linear` to g. Multipliers (shadow
        prices) are in ``res.multipliers``.
    bounds : `scipy.optimize.Bounds`, pair or list of pairs, optional
        Of the variables; the same as adding `geartrain.Box` to g. A pair is for all variables, and
        None is no bound.

    Returns
    -------
    Result
        A `scipy.optimize.OptimizeResult` with calls, history, certificate and more.

    Examples
    --------
    >>> import numpy as np, geartrain as gt
    >>> rng = np.random.default_rng(0)
    >>> A = rng.standard_normal((300, 50))
    >>> h = gt.LinearModel(A, np.sign(A[:, 0] + 0.5), loss="logistic")
    >>> g = gt.Quadratic(np.diag(np.logspace(-2, 3, 50)))
    >>> res = gt.minimize(h, g, method="afb", tol=1e-8)
    >>> res.success, res.calls["h.grad"] < 120
    (True, True)
    """
    if unknown:
        _refuse(next(iter(unknown)))
    return solve(
        Terms.of,
        h,
        g,
        x0,
        choose=lambda problem: _method(method, inner, prices, problem, state),
        words=f"minimise h + g in {{n}} variables by the method {called(method)}",
        L_h=L_h,
        L_g=L_g,
        mu=mu,
        geometry=geometry,
        seed=seed,
        state=state,
        constraints=constraints,
        bounds=bounds,
        stop=stop,
        tol=tol,
        max_iter=max_iter,
        callback=callback,
        progress=progress,
        verbose=verbose,
        record=record,
        checkpoint=checkpoint,
    )


def _refuse(name: str) -> NoReturn:
    """Raise for an argument that there is not."""
    known = [p for p in inspect.signature(minimize).parameters if p != "unknown"]
    near = difflib.get_close_matches(name, known, n=1)
    hint = _OF_SCIPY.get(name) or (f"did you mean {near[0]!r}?" if near else ", ".join(known))
    raise TypeError(f"minimize has no argument {name!r}: {hint}")


def _method(
    method: str | AnyMethod,
    inner: str | InnerMethod,
    prices: Mapping[str, float] | None,
    problem: Sum,
    state: RunState | None,
) -> tuple[AnyMethod, str]:
    """The method, and the words for ``res.plan`` where the method has none of its own."""
    # Imported here, so that ``import geartrain`` is quick.
    from geartrain.methods.base import as_inner
    from geartrain.methods.planning.bill import Prices
    from geartrain.methods.planning.planned import Planned
    from geartrain.methods.planning.planner import plan
    from geartrain.methods.planning.several_terms import make_train
    from geartrain.methods.registry import make_method, resolved

    known = Prices.checked(prices, problem.ledger)
    inner = inner.lower() if isinstance(inner, str) else as_inner(inner)
    if state is not None:
        check_same_terms(state.calls, problem)
        return state.method, "continued"
    method = resolved(method, problem)
    if method == "auto":
        if problem.psi is not None and not problem.psi.has_prox:
            why = f"{problem.psi!r} has linear minimisations and no proximal operator"
            return make_method("cgs", inner, problem), f"cgs: {why}"
        return Planned(plan(problem, inner, known), known), ""
    if problem.expensive:
        return make_train(method, inner, problem, known)
    made = make_method(method, inner, problem)
    return made, f"{method!r} as asked for" if isinstance(method, str) else "given as an object"


def takes_inner(method: str | AnyMethod) -> bool:
    """Whether ``inner=`` has a meaning beside this method."""
    from geartrain.methods import registry

    return registry.takes_inner(method)

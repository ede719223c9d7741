"""The front door: ``minimize(h, g)``."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from geartrain.callbacks.progress import Progress
from geartrain.callbacks.verbosity import Narrator
from geartrain.core.array_format import Form
from geartrain.core.calling_back import Callback
from geartrain.core.checkpoint import (
    Checkpoint,
    CheckpointError,
    GivenConstants,
    Saved,
    Saver,
    read,
)
from geartrain.core.contracts import AnyMethod, InnerMethod
from geartrain.core.driver import Run
from geartrain.core.history import as_record
from geartrain.core.interrupts import Interrupts
from geartrain.core.resume_check import changed, differences, fingerprint, listen
from geartrain.core.run_state import RunState
from geartrain.core.stopping import Rule, Tolerance
from geartrain.geometry import EUCLIDEAN, Geometry, as_geometry
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.linear import constrained
from geartrain.oracles.protocols import AnyTerm, Vector
from geartrain.oracles.splitting import Psi, split
from geartrain.oracles.validation import as_positive, as_vector, as_whole
from geartrain.problem import Sum
from geartrain.terms import Smoothness, Terms, check_same_terms, plain

if TYPE_CHECKING:
    from geartrain.core.result import Result

# The inverse length of a proximal step that goes nowhere inside of the domain of psi, whatever the
# units are, and how far that is; a point that it moves by more than a part of it was outside.
_SHORT, _NOWHERE, _OUTSIDE = 1e100, 1e-60, 1e-9

DEFAULT_MAX_ITER = 100_000

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
        one non-smooth term such as `geartrain.L1` or `geartrain.Box`, added to it or alone: its
        proximal steps are counted as ``g.prox``, and gradients of f are subgradients of least norm.
        It may also be a set with ``lmo(d)`` and ``diameter``, counted as ``g.lmo``, which the
        methods "cgs" and "frank-wolfe" take.
    x0 : array, optional
        Starting point; zero if not given. It may have any shape, e.g. that of an image: functions
        of yours get x in that shape, and ``res.x`` has it, too. A point in single precision is
        kept in single precision if all terms are made of functions of yours. A point where a
        non-smooth term is infinite is replaced by its proximal step, and a note says so. A set with
        linear minimisations alone has none: there the run starts at a vertex, unless the set has a
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
    with Interrupts() as interrupts:  # Ctrl-C gives a result, whenever it is pressed
        space: Geometry = EUCLIDEAN if geometry is None else as_geometry(geometry)
        terms = _terms(
            h, g, constraints, bounds, x0 if state is None else getattr(state, "x0", None)
        )
        x_start = space.enter(_starting_point(x0, terms, state, space))
        form = Form.of(x0, *terms.named.values()) if state is None else state.form
        problem = _formed(terms, form).problem(space, x_start.size, L_h, L_g, mu)
        problem = replace(problem, seed=as_whole(seed, "seed") if state is None else state.seed)
        x_start, moved = _into_domain(x_start, problem) if state is None else (x_start, "")
        chosen, plan = _method(method, inner, prices, problem, state)
        rule = Tolerance(rel=as_positive(tol, "tol")) if stop is None else _rule(stop)
        most = _iterations(max_iter, state)
        callbacks, place = _callbacks(callback, progress, checkpoint, rule)
        narrator = Narrator(as_whole(verbose, "verbose"))
        if narrator.listens:
            callbacks.append(narrator)
        narrator.begin(x_start.size, method if isinstance(method, str) else type(method).__name__)
        saver = None
        if place is not None:
            given = GivenConstants(plain(L_h), plain(L_g), plain(mu))
            saver = _saver(place, problem, terms, chosen, rule, most, given)
        run = Run(
            problem,
            chosen,
            rule,
            x_start,
            max_iter=most,
            callbacks=callbacks,
            plan=plan,
            resume=state,
            checkpoint=saver,
            interrupts=interrupts,
            record=as_record(record),
            form=form,
        )
        if moved:
            run.history.notes.append((0, moved))
        result = run.go()
        narrator.end(result)
        return result


def resume(
    path: Any,
    h: AnyTerm,
    g: AnyTerm,
    *,
    geometry: Geometry | None = None,
    check: bool = True,
    stop: Rule | None = None,
    tol: float | None = None,
    max_iter: int | None = None,
    callback: Callback | Sequence[Callback] | None = None,
    progress: bool = False,
    constraints: Any = None,
    bounds: Any = None,
) -> Result:
    """Go on with a run that was saved by ``minimize(..., checkpoint=path)``.

    The run continues as if it had never been stopped: the same iterates to the last bit, the
    same calls, the same seed and constants; it is saved to `path` again. A run that was complete
    gives its result at once. A method that cannot be stepped (SciPy's L-BFGS) starts again from
    the last point, and ``res.plan`` says so.

    Parameters
    ----------
    path : str or path
        The checkpoint.
    h, g : terms
        The same as before. Their class, dimension and data are compared.
    geometry : geometry, optional
        The same as before.
    check : bool
        Whether a term that is made of functions or operators, whose data cannot be seen, is asked
        one question of the earlier run again and the answers are compared. That call is not
        counted. Say False where it is too expensive, or where answers are random.
    stop, tol : optional
        A new rule or tolerance; by default those of the run.
    max_iter : int, optional
        Iterations from here on; by default up to the limit of the run.
    callback, progress
        As in `minimize`; callbacks are not saved.
    constraints, bounds : optional
        The same as before.

    Returns
    -------
    Result
        Of the whole run.

    Raises
    ------
    CheckpointError
        The file is damaged, foreign, or from a newer version, or the problem is another one. The
        file is not touched.

    Examples
    --------
    >>> import tempfile, numpy as np, geartrain as gt
    >>> h, g = gt.Quadratic(np.eye(3), np.ones(3)), gt.Quadratic(np.diag([1.0, 10.0, 100.0]))
    >>> path = tempfile.mkdtemp() + "/run.gtck"
    >>> part = gt.minimize(h, g, method="fgm", max_iter=3, checkpoint=path)
    >>> whole = gt.resume(path, h, g, max_iter=1000)
    >>> part.success, whole.success, whole.nit > 3
    (False, True, True)
    """
    import_module("geartrain.methods.planning.planned")  # the classes that a checkpoint may hold
    saved = read(path)
    space: Geometry = EUCLIDEAN if geometry is None else as_geometry(geometry)
    terms = _terms(h, g, constraints, bounds, saved.run.x0)
    _check_same_problem(path, saved, terms, space, check)
    if saved.rule is None and stop is None and tol is None:
        raise CheckpointError(f"{path}: the stopping rule was your own; give it again as stop=")
    state = saved.run
    if stop is not None or tol is not None:
        state = replace(state, status=None)
    place = Checkpoint(path, saved.every)
    place.heard = saved.heard
    return minimize(
        h,
        g,
        geometry=geometry,
        state=state,
        stop=saved.rule if tol is None and stop is None else stop,
        tol=1e-6 if tol is None else tol,
        max_iter=max(saved.max_iter - state.iteration, 0) if max_iter is None else max_iter,
        callback=callback,
        progress=progress,
        checkpoint=place,
        L_h=saved.given.L_h,
        L_g=saved.given.L_g,
        mu=saved.given.mu,
        constraints=constraints,
        bounds=bounds,
    )


def _refuse(name: str) -> NoReturn:
    """Raise for an argument that there is not."""
    known = [p for p in inspect.signature(minimize).parameters if p != "unknown"]
    near = difflib.get_close_matches(name, known, n=1)
    hint = _OF_SCIPY.get(name) or (f"did you mean {near[0]!r}?" if near else ", ".join(known))
    raise TypeError(f"minimize has no argument {name!r}: {hint}")


def _terms(h: AnyTerm, g: AnyTerm, constraints: Any, bounds: Any, x0: Any) -> Terms:
    """The terms, with constraints and bounds in g."""
    terms = Terms.of(h, g)
    if constraints is None and bounds is None:
        return terms
    n = terms.n if x0 is None or terms.n is not None else np.size(x0)
    return Terms.of(h, constrained(g, constraints, bounds, n))


def _formed(terms: Terms, form: Form | None) -> Terms:
    """The terms as functions of vectors."""
    if form is None:
        return terms
    return replace(terms, named={name: form.term(term) for name, term in terms.named.items()})


def _starting_point(x0: Any, terms: Terms, state: RunState | None, space: Geometry) -> Vector:
    n = terms.n
    if state is not None:
        if not isinstance(state, RunState):
            raise TypeError(f"state must be res.state of an earlier run, got {state!r:.60}")
        if x0 is not None:
            raise TypeError("give x0 or state, not both")
        x0 = space.leave(state.best.x)
    if x0 is None:
        if n is None:
            who = " nor ".join(terms.named)
            raise ValueError(f"x0 is needed: neither {who} knows its dimension")
        return np.zeros(n)
    return as_vector(x0 if Form.of(x0) is None else np.ravel(x0), "x0", n)


def _into_domain(x0: Vector, problem: Sum) -> tuple[Vector, str]:
    """x0, or its projection where psi is infinite at x0, and a note about that.

    A psi without values shows by a very short proximal step whether x0 is in its domain.
    """
    psi, norm = problem.psi, problem.geometry.norm
    if psi is not None and not psi.has_prox:
        return _into_set(x0, psi)
    if psi is None or (psi.has_value and psi.value(x0) < np.inf):
        return x0, ""
    alpha = 1.0 if psi.has_value else _SHORT
    try:
        x = psi.prox(x0, alpha)
    except NonFiniteAnswer:
        if psi.has_value:
            raise
        return x0, ""
    far = norm(x - x0)
    if not psi.has_value and far <= max(_OUTSIDE * norm(x0), _NOWHERE):
        return (x0 if far <= _NOWHERE else x), ""
    told = f"started {far:.3g} away, at prox(x0, {alpha:g})"
    return x, f"x0 is outside of the domain of {psi!r}: {told}"


def _into_set(x0: Vector, psi: Psi) -> tuple[Vector, str]:
    """x0, or a vertex of a set without a projection where it does not say that x0 is inside.

    The vertex is the one furthest in the direction of x0; for x0 = 0, that of least sum.
    """
    if psi.holds(x0):
        return x0, ""
    somewhere = bool(np.any(x0))
    told = "lmo(-x0)" if somewhere else "lmo(1, ..., 1)"
    return psi.lmo(-x0 if somewhere else np.ones_like(x0)), (
        f"{psi!r} does not say that x0 is inside, and has no projection: started at {told}"
    )


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


def _rule(stop: Any) -> Rule:
    if not callable(getattr(stop, "check", None)):
        raise TypeError(f"stop must be a rule such as gt.stop.Gradient(rel=1e-6), got {stop!r}")
    return stop


def _iterations(max_iter: int | None, state: RunState | None) -> int:
    done = 0 if state is None else state.iteration
    if max_iter is None:
        return done + DEFAULT_MAX_ITER
    return done + as_whole(max_iter, "max_iter")


def _callbacks(
    given: Callback | Checkpoint | Sequence[Callback | Checkpoint] | None,
    progress: bool,
    checkpoint: Any,
    rule: Rule,
) -> tuple[list[Callback], Checkpoint | None]:
    """The callbacks, and the checkpoint that may be among them."""
    if given is None:
        listed: list[Any] = []
    elif callable(given) or isinstance(given, Checkpoint):
        listed = [given]
    elif isinstance(given, Iterable):
        listed = list(given)
    else:
        raise TypeError(f"callback must be callable or a list of callables, got {given!r}")
    places = [c for c in listed if isinstance(c, Checkpoint)]
    places += [] if checkpoint is None else [Checkpoint.of(checkpoint)]
    if len(places) > 1:
        raise TypeError("give one checkpoint, not several")
    callbacks = [c for c in listed if not isinstance(c, Checkpoint)]
    return [*callbacks, *([Progress(rule)] if progress else [])], places[0] if places else None


def _saver(
    place: Checkpoint,
    problem: Sum,
    terms: Terms,
    method: AnyMethod,
    rule: Rule,
    max_iter: int,
    given: GivenConstants,
) -> Saver:
    space = problem.geometry
    heard = listen(problem.oracles, terms.named.values(), space, place.heard)
    known = fingerprint(terms.named, space)
    return Saver(place, method, rule, max_iter, given, known, heard)


def _check_same_problem(
    path: Any, saved: Saved, terms: Terms, space: Geometry, check: bool
) -> None:
    """Raise a `CheckpointError` unless the terms are those of the saved run."""
    if differ := differences(saved.fingerprint, fingerprint(terms.named, space)):
        raise CheckpointError(f"{path} is a run on another problem: {differ}")
    named = _formed(terms, saved.run.form).named
    for name, term in named.items() if check else ():
        smooth = space.term(split(term)[0], name)
        if name in saved.heard and (how := changed(smooth, saved.heard[name])):
            raise CheckpointError(
                f"{path} is a run on another problem: {name} = {term!r} does not answer as before, "
                f"{how}; check=False goes on all the same"
            )

"""The front door: ``minimize(h, g)``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from geartrain.callbacks.progress import Progress
from geartrain.core.calling_back import Callback
from geartrain.core.checkpoint import Checkpoint, CheckpointError, Saved, Saver, read
from geartrain.core.contracts import AnyMethod, InnerMethod
from geartrain.core.driver import Run
from geartrain.core.fingerprint import differences, fingerprint
from geartrain.core.interrupts import Interrupts
from geartrain.core.run_state import RunState
from geartrain.core.stopping import Gradient, Rule
from geartrain.core.witness import changed, listen
from geartrain.geometry import EUCLIDEAN, Geometry, as_geometry
from geartrain.oracles.ledger import Ledger, Oracle
from geartrain.oracles.protocols import Vector, answers
from geartrain.oracles.splitting import Psi, Zero, split
from geartrain.oracles.validation import as_nonnegative, as_positive, as_vector, as_whole
from geartrain.problem import Constant, Sum

if TYPE_CHECKING:
    from geartrain.core.result import Result

DEFAULT_MAX_ITER = 100_000
# The smoothness constant in use for a linear term, over that of the other term.
_LINEAR = 1e-3


def minimize(
    h: Any,
    g: Any,
    x0: Any = None,
    *,
    method: str | AnyMethod = "auto",
    inner: str | InnerMethod = "auto",
    stop: Rule | None = None,
    tol: float = 1e-6,
    max_iter: int | None = None,
    L_h: float | None = None,
    L_g: float | None = None,
    mu: float | None = None,
    prices: Mapping[str, float] | None = None,
    geometry: Geometry | None = None,
    seed: int = 0,
    callback: Callback | Sequence[Callback] | None = None,
    progress: bool = False,
    state: RunState | None = None,
    checkpoint: Any = None,
) -> Result:
    """Minimise f(x) = h(x) + g(x), asking each term only as often as it needs.

    Parameters
    ----------
    h, g : terms
        `geartrain.Quadratic`, `geartrain.LinearModel`, `geartrain.LogSumExp`, `geartrain.Term`,
        sums of these, or any object that answers in their way. h is the one to be asked rarely. g
        may have one non-smooth term such as `geartrain.L1` or `geartrain.Box`, added to it or
        alone: its proximal steps are counted as ``g.prox``, and gradients of f are subgradients of
        least norm.
    x0 : array (n,), optional
        Starting point; zero if not given. A point where a non-smooth term is infinite is replaced
        by its proximal step, and a note says so.
    method : str or method
        "auto" (see `geartrain.planner`), a name of ``geartrain.methods.registry.METHODS``, or an
        object such as ``gt.SAE(sigma=0.5)``.
    inner : str or inner method
        For a method given by name: a name of ``geartrain.methods.registry.INNER``, or "auto".
    stop : rule, optional
        From `geartrain.stop`; replaces `tol`.
    tol : float
        Stop at ``|grad f(x)| <= tol |grad f(x0)|``.
    max_iter : int, optional
        Limit of outer iterations.
    L_h, L_g, mu : float, optional
        Smoothness of the terms and strong convexity of their sum, where the terms do not know.
    prices : dict, optional
        What a gradient costs, e.g. ``{"h.grad": 100.0, "g.grad": 1.0}``, for method "auto"; if not
        given, the seconds that are measured.
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
        Show a line on stderr.
    state : optional
        ``res.state`` of an earlier run, to go on from there; its seed is kept.
    checkpoint : path or `geartrain.callbacks.Checkpoint`, optional
        Save the run there every 30 seconds (or ``every=``) and at its end, for `resume`.

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
    with Interrupts() as interrupts:  # Ctrl-C gives a result, whenever it is pressed
        space: Geometry = EUCLIDEAN if geometry is None else as_geometry(geometry)
        terms = _terms(h, g)
        x_start = space.enter(_starting_point(x0, terms, state, space))
        problem = _problem(terms, space, x_start.size, L_h, L_g, mu)
        problem = replace(problem, seed=as_whole(seed, "seed") if state is None else state.seed)
        x_start, moved = _into_domain(x_start, problem)
        chosen, plan = _method(method, inner, prices, problem, state)
        rule = Gradient(rel=as_positive(tol, "tol")) if stop is None else _rule(stop)
        most = _iterations(max_iter, state)
        callbacks, place = _callbacks(callback, progress, checkpoint, rule)
        saver = None
        if place is not None:
            given = {"L_h": L_h, "L_g": L_g, "mu": mu}
            saver = _saver(place, problem, terms, chosen, rule, most, given)
        run = Run(
            problem,
            chosen,
            rule,
            max_iter=most,
            callbacks=callbacks,
            plan=plan,
            resume=state,
            checkpoint=saver,
            interrupts=interrupts,
        )
        if moved:
            run.history.notes.append((0, moved))
        return run.go(x_start)


def resume(
    path: Any,
    h: Any,
    g: Any,
    *,
    geometry: Geometry | None = None,
    check: bool = True,
    stop: Rule | None = None,
    tol: float | None = None,
    max_iter: int | None = None,
    callback: Callback | Sequence[Callback] | None = None,
    progress: bool = False,
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
    import_module("geartrain.methods.registry")  # the classes that a checkpoint may hold
    saved = read(path)
    space: Geometry = EUCLIDEAN if geometry is None else as_geometry(geometry)
    _check_same_problem(path, saved, _terms(h, g), space, check)
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
        **saved.given,
    )


Terms = tuple[Any, Any]  # h and g as the user gave them


def _terms(h: Any, g: Any) -> Terms:
    for name, term in (("h", h), ("g", g)):
        if not answers(term):
            hint = " (wrap functions as gt.Term(value_and_grad=...))" if callable(term) else ""
            raise TypeError(
                f"{name} must be a term that answers value, grad, ...; got "
                f"{type(term).__name__}{hint}"
            )
    return h, g


def _starting_point(x0: Any, terms: Terms, state: RunState | None, space: Geometry) -> Vector:
    named = zip(("h", "g"), terms, strict=True)
    sizes = {name: n for name, t in named if (n := getattr(t, "n", None)) is not None}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"h has dimension {sizes['h']} but g has {sizes['g']}")
    n = next(iter(sizes.values()), None)
    if state is not None:
        if not isinstance(state, RunState):
            raise TypeError(f"state must be res.state of an earlier run, got {state!r:.60}")
        if x0 is not None:
            raise TypeError("give x0 or state, not both")
        x0 = space.leave(state.best.x)
    if x0 is None:
        if n is None:
            raise ValueError("x0 is needed: neither h nor g knows its dimension")
        return np.zeros(n)
    return as_vector(x0, "x0", n)


def _problem(
    terms: Terms,
    space: Geometry,
    n: int,
    L_h: float | None,
    L_g: float | None,
    mu: float | None,
) -> Sum:
    """f in its geometry, with counted oracles and the constants that are known."""
    smooth, part = _split(terms, space)
    h, g = space.term(terms[0], "h"), space.term(smooth, "g")
    ledger = Ledger()
    psi = None if part is None else Psi(part[1], part[0], "g", ledger, n)
    for_h, for_g = _constant("L_h", L_h, h), _constant("L_g", L_g, g)
    problem = Sum(
        Oracle(h, "h", ledger, n),
        Oracle(g, "g", Ledger() if isinstance(g, Zero) else ledger, n),  # 0 is not asked
        _positive(for_h, for_g),
        _positive(for_g, for_h),
        _strong_convexity(mu, h, g),
        geometry=space,
        psi=psi,
    )
    _check_constants(problem)
    return problem


def _split(terms: Terms, space: Geometry) -> tuple[Any, tuple[float, Any] | None]:
    """The smooth part of g and its non-smooth part, which h must not have."""
    in_h = split(terms[0])[1]
    if in_h is not None:
        raise ValueError(
            f"h has the non-smooth term {in_h[1]!r}, which has no gradient; add it to g, as in "
            "minimize(h, g + gt.L1(0.1)), which is the same sum"
        )
    smooth, part = split(terms[1])
    if part is not None and space is not EUCLIDEAN:
        raise ValueError(
            f"the proximal operator of {part[1]!r} is Euclidean, so it cannot be used in "
            f"{space!r}; leave out geometry="
        )
    return smooth, part


def _into_domain(x0: Vector, problem: Sum) -> tuple[Vector, str]:
    """x0, or its projection where psi is infinite at x0, and a note about that."""
    psi = problem.psi
    if psi is None or not psi.has_value or psi.value(x0) < np.inf:
        return x0, ""
    x = psi.prox(x0, 1.0)
    far = problem.geometry.norm(x - x0)
    return x, f"x0 is outside of the domain of {psi!r}: started {far:.3g} away, at prox(x0, 1)"


def _method(
    method: str | AnyMethod,
    inner: str | InnerMethod,
    prices: Mapping[str, float] | None,
    problem: Sum,
    state: RunState | None,
) -> tuple[AnyMethod, str]:
    """The method, and the words for ``res.plan`` where the method has none of its own."""
    # Imported here, so that ``import geartrain`` is quick.
    from geartrain.methods.choice import Prices
    from geartrain.methods.registry import make_method
    from geartrain.planner import make_auto

    known = Prices.checked(prices, problem.ledger)
    if state is not None:
        return state.method, "continued"
    if isinstance(method, str) and method == "auto":
        return make_auto(problem, inner, known), ""
    made = make_method(method, inner, problem)
    return made, f"{method!r} as asked for" if isinstance(method, str) else "given as an object"


def _constant(name: str, given: float | None, term: Any) -> Constant:
    if given is not None:
        return Constant(as_positive(given, name), "given")
    own = getattr(term, "L", None)
    return Constant(None, "unknown") if own is None else Constant(float(own), "term")


def _positive(L: Constant, other: Constant) -> Constant:
    """For a linear term, whose L is 0, a number that the methods can divide by.

    Every positive number is a smoothness constant of it; one far below that of the other term
    asks for few of its gradients.
    """
    if L.value != 0.0:
        return L
    return Constant(_LINEAR * (other.value or 1.0 / _LINEAR), L.source)


def _strong_convexity(given: float | None, h: Any, g: Any) -> Constant:
    if given is not None:
        return Constant(as_nonnegative(given, "mu"), "given")
    if not getattr(h, "convex", True) or not getattr(g, "convex", True):
        return Constant(0.0, "unknown")
    total = sum(float(getattr(t, "mu", 0.0) or 0.0) for t in (h, g))
    return Constant(total, "term" if total > 0.0 else "unknown")


def _check_constants(problem: Sum) -> None:
    L_h, L_g, mu = problem.L_h.value, problem.L_g.value, problem.mu.value
    if mu and L_h is not None and L_g is not None and mu > (L_h + L_g) * (1 + 1e-9):
        raise ValueError(
            f"mu = {mu:g} exceeds L_h + L_g = {L_h + L_g:g}: no function has that; check the "
            "constants"
        )


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
    given: dict[str, float | None],
) -> Saver:
    space = problem.geometry
    constants = {k: None if v is None else float(v) for k, v in given.items()}
    heard = listen((problem.h, problem.g), terms, space, place.heard)
    known = fingerprint(*terms, space)
    return Saver(place, method, rule, max_iter, constants, known, heard)


def _check_same_problem(
    path: Any, saved: Saved, terms: Terms, space: Geometry, check: bool
) -> None:
    """Raise a `CheckpointError` unless the terms are those of the saved run."""
    if differ := differences(saved.fingerprint, fingerprint(*terms, space)):
        raise CheckpointError(f"{path} is a run on another problem: {differ}")
    for name, term in zip(("h", "g"), terms, strict=True) if check else ():
        smooth = space.term(split(term)[0], name)
        if name in saved.heard and (how := changed(smooth, saved.heard[name])):
            raise CheckpointError(
                f"{path} is a run on another problem: {name} = {term!r} does not answer as before, "
                f"{how}; check=False goes on all the same"
            )

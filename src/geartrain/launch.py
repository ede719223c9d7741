"""What is common to the front doors: where a run starts, and what is seen and kept of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from geartrain.callbacks.progress import Narrator, Progress
from geartrain.core.array_format import Form
from geartrain.core.calling_back import Callback
from geartrain.core.checkpoint import Checkpoint, GivenConstants, Saver
from geartrain.core.contracts import AnyMethod
from geartrain.core.driver import Run
from geartrain.core.history import as_record
from geartrain.core.interrupts import Interrupts
from geartrain.core.resume_check import fingerprint, listen
from geartrain.core.run_state import RunState
from geartrain.core.stopping import Rule, Tolerance
from geartrain.geometry import EUCLIDEAN, Geometry, as_geometry
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.linear import constrained
from geartrain.oracles.protocols import AnyTerm, Vector
from geartrain.oracles.splitting import Psi
from geartrain.oracles.validation import as_positive, as_vector, as_whole
from geartrain.problem import Sum
from geartrain.terms import AnyTerms, Smoothness, Terms, plain

if TYPE_CHECKING:
    from geartrain.core.result import Result

# The inverse length of a proximal step that goes nowhere inside of the domain of psi, whatever the
# units are, and how far that is; a point that it moves by more than a part of it was outside.
_SHORT, _NOWHERE, _OUTSIDE = 1e100, 1e-60, 1e-9

DEFAULT_MAX_ITER = 100_000


def formed(terms: AnyTerms, form: Form | None) -> AnyTerms:
    if form is None:
        return terms
    return replace(terms, named={name: form.term(term) for name, term in terms.named.items()})


def with_constraints(
    of: Callable[[AnyTerm, AnyTerm], AnyTerms],
    h: AnyTerm,
    g: AnyTerm,
    constraints: Any,
    bounds: Any,
    x0: Any,
) -> AnyTerms:
    """The terms, made by `of`, with constraints and bounds in g."""
    terms = of(h, g)
    if constraints is None and bounds is None:
        return terms
    n = terms.n if x0 is None or terms.n is not None else np.size(x0)
    return of(h, constrained(terms.cheap, constraints, bounds, n))


def _starting_point(x0: Any, terms: Terms, state: RunState | None, space: Geometry) -> Vector:
    """x0 as a vector; that of an earlier run; zero."""
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


def solve(
    of: Callable[[AnyTerm, AnyTerm], Terms],
    first: AnyTerm,
    second: AnyTerm,
    x0: Any,
    *,
    choose: Callable[[Sum], tuple[AnyMethod, str]],
    words: str,
    L_h: Smoothness,
    L_g: float | None,
    mu: float | None,
    geometry: Geometry | None,
    seed: int,
    state: RunState | None,
    constraints: Any,
    bounds: Any,
    stop: Rule | None,
    tol: float,
    max_iter: int | None,
    callback: Callback | Sequence[Callback] | None,
    progress: bool,
    verbose: int,
    record: str | Sequence[str] | None,
    checkpoint: Any,
) -> Result:
    """Make a problem of the terms, choose its method and plan, and carry out the run."""
    with Interrupts() as interrupts:  # Ctrl-C gives a result, whenever it is pressed
        space: Geometry = EUCLIDEAN if geometry is None else as_geometry(geometry)
        terms = with_constraints(of, first, second, constraints, bounds, getattr(state, "x0", x0))
        x_start = space.enter(_starting_point(x0, terms, state, space))
        form = Form.of(x0, *terms.named.values()) if state is None else state.form
        problem = formed(terms, form).problem(space, x_start.size, L_h, L_g, mu)
        problem = replace(problem, seed=as_whole(seed, "seed") if state is None else state.seed)
        x_start, moved = _into_domain(x_start, problem) if state is None else (x_start, "")
        method, plan = choose(problem)
        rule = Tolerance(rel=as_positive(tol, "tol")) if stop is None else stop
        if not callable(getattr(rule, "check", None)):
            raise TypeError(f"stop must be a rule such as gt.stop.Gradient(rel=1e-6), got {stop!r}")
        most = (0 if state is None else state.iteration) + (
            DEFAULT_MAX_ITER if max_iter is None else as_whole(max_iter, "max_iter")
        )
        callbacks, place = _callbacks(callback, progress, checkpoint, rule)
        narrator = Narrator(as_whole(verbose, "verbose"))
        if narrator.listens:
            callbacks.append(narrator)
        narrator.begin(words.format(n=x_start.size))
        saver = None
        if place is not None:
            known = {
                "rule": rule,
                "max_iter": most,
                "given": GivenConstants(plain(L_h), plain(L_g), plain(mu)),
                "every": place.every,
                "fingerprint": fingerprint(terms.named, space),
                "heard": listen(problem.oracles, terms.named.values(), space, place.heard),
            }
            saver = Saver(place.path, method, known)
        run = Run(
            problem,
            method,
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


def called(method: Any) -> str:
    return method if isinstance(method, str) else type(method).__name__


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

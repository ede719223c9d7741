"""What people use instead, each with care, until the target is reached.

A gradient method sees the problem through an `Asker`, which asks h and g together, counts, and ends
the run by an exception as soon as f <= target: no rule of the solver decides. Only what a solver
does not need itself is kept off its clock: f at the points of FISTA with a known L. A solver that
cannot be looked into (scikit-learn, skglm, NNLS) is run for tolerances 1e-1, 1e-2, ..., each time
from the start; the first run that ends at the target counts, the others are a gift.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from time import process_time
from typing import Any

import numpy as np
from scipy import optimize

import geartrain as gt
from geartrain_lab.nonsmooth_rivals import Evaluated, orthant_wise
from geartrain_lab.seconds.problem import Array, Problem

Rival = Callable[["Asker"], Any]
_MANY = 10**8
_PATIENCE, _PROGRESS = 400, 1e-12  # calls in which f has to fall by this much of its whole fall


class Over(Exception):
    """The run has reached the target or its limit, or does not get any further."""


class Asker:
    """h + g as one smooth term, with a count and a clock, which ends the run at its limit."""

    def __init__(self, problem: Problem, target: float, limit: float) -> None:
        self.problem, self.target, self.limit = problem, target, limit
        self.calls, self.best, self.x, self.reached = 0, math.inf, problem.x0, False
        self.first, self._fallen, self._since = math.nan, math.inf, 0
        self._start, self._off = process_time(), 0.0

    @property
    def seconds(self) -> float:
        """Process seconds so far, without what `look` took."""
        return process_time() - self._start - self._off

    def smooth(self, x: Array) -> tuple[float, Array]:
        self.calls += 1
        value, grad = self.problem.h.value_and_grad(x)
        if self.problem.g is not None:
            value_g, grad_g = self.problem.g.value_and_grad(x)
            value, grad = value + value_g, grad + grad_g
        if self.seconds > self.limit:
            raise Over
        return float(value), grad

    def __call__(self, x: Array) -> tuple[float, Array]:
        """The same at a point that the solver would return."""
        value, grad = self.smooth(x)
        self.note(x, value + self.problem.psi_at(x))
        return value, grad

    def value(self, x: Array) -> float:
        """The value alone; one call of h."""
        self.calls += 1
        value = sum(map(_value, self.problem.smooth_terms, itertools.repeat(x)))
        self.note(x, value + self.problem.psi_at(x))
        return value

    def look(self, x: Array) -> None:
        """f at a point, neither counted nor timed."""
        start = process_time()
        f = self.problem.f(x)
        self._off += process_time() - start
        self.note(x, f)

    def note(self, x: Array, f: float) -> None:
        """The solver has a point with this f."""
        if math.isnan(self.first):
            self.first = f
        if f < self.best:
            self.best, self.x = f, x.copy()
        if f <= self.target:
            self.reached = True
            raise Over
        if self.best < self._fallen - _PROGRESS * (self.first - self.best):
            self._fallen, self._since = self.best, self.calls
        elif self.calls > self._since + _PATIENCE:
            raise Over


def _value(term: Any, x: Array) -> float:
    """The value of a term, without the gradient where this is cheaper."""
    alone = getattr(term, "value", None)
    return float(term.value_and_grad(x)[0] if alone is None else alone(x))


def _norm(x: Array) -> float:
    return math.sqrt(float(x @ x))


def run(rival: Rival, problem: Problem, target: float, limit: float) -> tuple[Asker, float]:
    """One run, and its process seconds; infinite where the target is not reached."""
    ask = Asker(problem, target, limit)
    try:
        with np.errstate(all="ignore"):
            rival(ask)
    except Over:
        pass
    return ask, ask.seconds if ask.reached else math.inf


def lbfgs(memory: int, scale: Any = 1.0) -> Rival:
    """SciPy's L-BFGS-B in the variables x / scale."""

    def solve(ask: Asker) -> None:
        x0, psi = ask.problem.x0, ask.problem.psi
        limits = {"maxcor": memory, "maxiter": _MANY, "maxfun": _MANY, "ftol": 0.0, "gtol": 0.0}
        bounds = None
        if psi is not None:
            bounds = optimize.Bounds(psi.lower / scale + 0.0 * x0, psi.upper / scale + 0.0 * x0)

        def scaled(z: Array) -> tuple[float, Array]:
            value, grad = ask(scale * z)
            return value, scale * grad

        asked = ask if np.ndim(scale) == 0 else scaled
        while True:  # after a failed line search, once more from the best point without memory
            before = ask.best
            optimize.minimize(
                asked, x0 / scale, jac=True, method="L-BFGS-B", bounds=bounds, options=limits
            )
            x0 = ask.x
            if not ask.best < before - _PROGRESS * (ask.first - ask.best):
                return

    return solve


def fista(L: float | None = None) -> Rival:
    """FISTA restarted by the gradient test; with backtracking where L is not given."""

    def solve(ask: Asker) -> None:
        x = y = ask.problem.x0
        psi, t, M = ask.problem.psi, 1.0, L or 0.0
        value, grad = ask(x)
        if L is None:  # a guess from a short step
            slope = max(_norm(grad), 1e-300)
            step = 1e-4 * max(_norm(x), 1.0)
            M = _norm(ask.smooth(x - (step / slope) * grad)[1] - grad) / step
        while True:
            M *= 1.0 if L else 0.9
            while True:
                new = psi.prox(y - grad / M, M)
                d = new - y
                if L:
                    ask.look(new)
                    break
                found = ask.value(new)
                if found <= value + float(grad @ d) + 0.5 * M * float(d @ d):
                    break
                # Where values differ by rounding errors, the gradients tell whether M is enough.
                near = abs(found - value) <= 1e-10 * abs(value)
                if near and float((ask.smooth(new)[1] - grad) @ d) <= M * float(d @ d):
                    break
                M *= 2.0
            if float((y - new) @ (new - x)) > 0.0:  # restart
                t = 1.0
            t_new = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
            y, x, t = new + ((t - 1.0) / t_new) * (new - x), new, t_new
            value, grad = ask.smooth(y)

    return solve


def owl_qn(memory: int = 20) -> Rival:
    """Orthant-wise L-BFGS for an l1 norm."""

    def solve(ask: Asker) -> None:
        psi = ask.problem.psi

        def evaluated(x: Array) -> Evaluated:
            value, grad = ask(x)
            return Evaluated(x=x, smooth=value, grad_s=grad, value=value + psi.value(x))

        orthant_wise(evaluated, psi, ask.problem.x0, lambda at: False, memory)

    return solve


def gradient_methods(problem: Problem) -> dict[str, Rival]:
    """The rivals that ask for values and gradients, by name."""
    out: dict[str, Rival] = {}
    if problem.psi is None or isinstance(problem.psi, gt.Box):
        out |= {f"L-BFGS({memory})": lbfgs(memory) for memory in (50, 10)}
        if isinstance(problem.h, gt.LinearModel) and isinstance(problem.g, gt.Quadratic):
            # People standardise the columns of their data.
            out["L-BFGS scaled"] = lbfgs(20, (problem.h.L_coord + problem.g.L_coord) ** -0.5)
    if isinstance(problem.psi, gt.L1):
        out["OWL-QN"] = owl_qn()
    if problem.psi is not None:
        out["FISTA"] = fista()
        constants: list[Any] = [getattr(term, "L", None) for term in problem.smooth_terms]
        if None not in constants:
            out["FISTA(L)"] = fista(float(sum(constants)))  # L is found off the clock
    return out


def special_solvers(problem: Problem) -> Iterator[tuple[str, Callable[[float], Array]]]:
    """Solvers made for the problem: names, and functions from a tolerance to a point."""
    known = problem.known
    kind, most = known.get("kind"), 100_000
    if kind == "nnls":
        yield "NNLS", lambda tol: optimize.nnls(known["A"], known["y"], maxiter=most)[0]
        return
    try:
        from sklearn import __version__, covariance, linear_model
    except ImportError:
        return
    new = tuple(int(part) for part in __version__.split(".")[:2]) >= (1, 8)
    lam, l2, m = known.get("lam", 0.0), known.get("l2", 0.0), len(known.get("y", [0]))
    A, y = known.get("A"), known.get("y")

    def fitted(model: Callable[..., Any], **options: Any) -> Callable[[float], Array]:
        """The coefficients; the tolerance is an option, which `fine` makes smaller."""
        fine = options.pop("fine", 1.0)
        return lambda tol: np.ravel(
            model(fit_intercept=False, tol=fine * tol, **options).fit(A, y).coef_.T
        )

    net = {"alpha": lam + l2, "l1_ratio": lam / (lam + l2 or 1.0), "fine": 1e-2}
    if kind == "lasso":
        yield (
            "sklearn CD",
            fitted(linear_model.ElasticNet, **net, max_iter=most, precompute=False),
        )
    elif kind == "sparse logistic":
        l1 = {"l1_ratio": 1.0} if new else {"penalty": "l1"}
        C = 1.0 / (lam * m)
        logistic = partial(linear_model.LogisticRegression, C=C, solver="liblinear", **l1)
        yield "liblinear", fitted(logistic, max_iter=1000)  # beyond what it can reach it goes on
    elif kind in ("logistic", "multinomial"):
        for solver in ("lbfgs", "newton-cholesky"):
            model = partial(linear_model.LogisticRegression, C=1.0 / (l2 * m), solver=solver)
            yield f"sklearn {solver}", fitted(model, max_iter=most)
    elif kind == "glasso":

        def covariances(tol: float) -> Array:
            W = covariance.graphical_lasso(
                known["S"], lam, tol=tol, enet_tol=1e-2 * tol, max_iter=1000
            )[0]
            return np.asarray(np.clip((W - known["S"])[known["upper"]], -lam, lam))

        yield "sklearn glasso", covariances
    try:
        import skglm  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return
    if kind == "lasso":
        yield "skglm", fitted(skglm.ElasticNet, **net)
    elif kind == "sparse logistic":
        yield "skglm", fitted(skglm.SparseLogisticRegression, alpha=lam, fine=1e-2)
    elif kind == "groups":
        groups = partial(skglm.GroupLasso, known["size"], lam)
        yield "skglm", fitted(groups, fine=1e-2)


def run_special(
    solve: Callable[[float], Array], problem: Problem, target: float, limit: float, first: int = 1
) -> tuple[float, float]:
    """Process seconds of the first tolerance that reaches the target, and the lowest f."""
    spent, best = 0.0, math.inf
    for power in range(first, 13):
        start = process_time()
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                x = solve(10.0**-power)
            except (FloatingPointError, RuntimeError, ValueError):
                break  # scikit-learn gives up on a tolerance that is too small
        seconds = process_time() - start
        best = min(best, problem.f(x))
        spent += seconds
        if best <= target:
            return seconds, best
        if spent > limit:
            break
    return math.inf, best

"""Methods for more than two terms that are named or given: their levels, and what they refuse."""

from __future__ import annotations

from typing import Any, TypeVar

from geartrain.geometry import EUCLIDEAN
from geartrain.methods.afb import AFB
from geartrain.methods.base import AnyMethod, InnerMethod, as_method
from geartrain.methods.learned_train import LearnedTrain
from geartrain.methods.nested_sum import Train, arranged, innermost, told
from geartrain.methods.planning.bill import Prices
from geartrain.methods.planning.level_order import (
    arrange,
    constants,
    learned,
    levels_of,
    listed,
    pinned,
    two_levels,
)
from geartrain.methods.pqn.method import ProximalQuasiNewton
from geartrain.methods.registry import (
    make_inner,
    make_method,
    require_any_geometry,
    require_psi,
)
from geartrain.methods.restart import GradientTest, Restarted
from geartrain.oracles.protocols import require
from geartrain.problem import MissingConstant, Sum

T = TypeVar("T", bound=Train | LearnedTrain)

# Methods by name that take any number of terms; those that treat all of them as one.
_WHOLE = ("fgm", "lbfgs", "cgs", "frank-wolfe")
_NAMES = ("auto", "afb", "pqn", *_WHOLE)
# Methods whose proofs rest on a test of the exact gradient at the new point.
_TESTED = ("sae", "rsae", "scsae", "gmco", "aeg")


def make_train(
    method: str | AnyMethod, inner: str | InnerMethod, problem: Sum, prices: Prices
) -> tuple[AnyMethod, str]:
    """The method for more than two terms, by name or given, and the words for ``res.plan``."""
    if isinstance(method, str):
        if method not in _NAMES:
            raise ValueError(_refused(repr(method), problem))
        if method in _WHOLE:
            return make_method(method, inner, problem), f"{method!r} as asked for"
        make = afb_on_levels if method == "afb" else _pqn_on_levels
        train = make(problem, inner, prices)
        _refuse_psi(train, problem)
        return train, ""
    if isinstance(method, ProximalQuasiNewton):
        return _checked(_nested_on_levels(method, problem), problem), ""
    made = as_method(method)
    core = getattr(made, "method", made)
    if isinstance(made, LearnedTrain | Train):
        return _checked(made, problem), ""
    if isinstance(core, AFB):
        return _checked(Train(listed(problem), made, "as listed"), problem), ""
    if getattr(core, "many_terms", False):
        return make_method(made, inner, problem), "given as an object"
    raise ValueError(_refused(type(core).__name__, problem))


# Levels --------------------------------------------------------------------------------------


def afb_on_levels(problem: Sum, inner: str | InnerMethod, prices: Prices) -> Train:
    """AFB on all levels; with restarts on the first one where strong convexity is not known."""
    if prices.given is None:  # a run by theory is the same every time, so nothing is measured
        levels, why = listed(problem), "as listed, because no prices are given"
    else:
        price, last = prices.by_term(problem), pinned(problem, inner)
        mu = problem.mu.value or 0.0
        levels, why = arrange(price, constants(problem), mu=mu, last=last)
        if len(levels) < 2:
            levels, why = two_levels(price), f"{why}, but AFB needs two levels"
    split = arranged(problem, levels)
    method: Any = AFB(inner=make_inner(inner, innermost(split)))
    if not split.mu_h + split.mu_g:
        method = Restarted(method, GradientTest())
    return _checked(Train(levels, method, why), problem)


def _pqn_on_levels(problem: Sum, inner: str | InnerMethod, prices: Prices) -> AnyMethod:
    """The learned method on all levels."""
    if inner != "auto":
        raise TypeError(
            "method 'pqn' for more than two terms has no inner method but the levels below; "
            "leave out inner=, or choose afb"
        )
    for oracle in problem.oracles:
        require("pqn", oracle.name, oracle.term, "grad")
    if prices.given is not None:
        price = prices.by_term(problem)
        return learned(*levels_of(problem, price, constants(problem)), price)
    (first, *others), why = listed(problem), "as listed, because no prices are given"
    return LearnedTrain((first, *others), reason=why)


def _nested_on_levels(method: ProximalQuasiNewton, problem: Sum) -> Train | LearnedTrain:
    """As many levels as listed as `method` has inside itself, and all further terms on the last."""
    names = [name for level in listed(problem) for name in level]
    depth, inside = 1, method.inner
    while isinstance(inside, ProximalQuasiNewton):
        depth, inside = depth + 1, inside.inner
    if depth >= len(names):
        raise ValueError(
            f"ProximalQuasiNewton is nested {depth} times, but {len(names)} terms have "
            f"{len(names) - 1} levels above the last one at most"
        )
    levels = (*((name,) for name in names[:depth]), tuple(names[depth:]))
    if depth == 1:
        return Train(levels, as_method(method), "as listed")
    return LearnedTrain(levels, method, "as listed")


def _checked(train: T, problem: Sum) -> T:
    """`train`, if its levels hold all terms, and the terms have what it needs."""
    names = [oracle.name for oracle in problem.oracles]
    if sorted(name for level in train.levels for name in level) != sorted(names):
        raise ValueError(
            f"the levels {told(train.levels)} must name every term once: {', '.join(names)}"
        )
    if len(train.levels) < 2 or not all(train.levels):
        raise ValueError(f"a train needs two levels or more, each with a term; got {train.levels}")
    _refuse_psi(train, problem)
    if isinstance(train, LearnedTrain) or not isinstance(train.core, AFB):
        return train
    core, inside = train.core, train.core.inner
    if problem.psi is not None:
        require_psi(inside, problem, inner=True)
    if problem.geometry is not EUCLIDEAN:
        require_any_geometry(train.method, problem)
        require_any_geometry(inside, problem)
    name, last = type(core).__name__, train.levels[-1]
    for oracle, L in problem.summands:
        if oracle.name in last:
            told_inside = f"{name} with {type(inside).__name__} inside"
            require(told_inside, oracle.name, oracle.term, *inside.needs)
            continue
        require(name, oracle.name, oracle.term, *core.needs)
        if not getattr(oracle.term, "convex", True):
            raise ValueError(
                f"{name} needs a convex {oracle.name}, but {oracle.term!r}; add it to a term with "
                "which it is convex, or use method='auto'"
            )
        if L.value is None:
            raise MissingConstant(
                f"{name} needs the smoothness of {oracle.name}, which neither the term nor the "
                "call gives; pass L_h=[...] with one number per term, give the term its L, or use "
                "method='auto', which needs no constants"
            )
    return train


def _refuse_psi(train: AnyMethod, problem: Sum) -> None:
    """Raise where a non-smooth term is given to a train whose method is not made for it."""
    method = train.core if isinstance(train, Train) else train
    if problem.psi is None:
        return
    if getattr(method, "takes_psi", False):
        require_psi(method, problem)
        return
    raise ValueError(
        f"{type(method).__name__} is not made for a non-smooth term, here {problem.psi!r}; take "
        "method='auto' or method='afb'"
    )


def _refused(name: str, problem: Sum) -> str:
    names = [oracle.name for oracle in problem.oracles]
    why = ""
    if name.strip("'").replace("-", "").lower() in _TESTED:
        why = (
            f" (its test needs the exact gradient of {' + '.join(names[1:])}, which the levels "
            "below know only after one more call of each of their terms; the rule of AFB does not)"
        )
    return (
        f"{name} has no form for more than two terms{why}; choose one of {', '.join(_NAMES)}, or "
        f"add up the terms, minimize({' + '.join(names[:-1])}, g)"
    )

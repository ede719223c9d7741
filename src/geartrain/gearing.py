"""The method for more than two terms: which levels, in which order, and why."""

from __future__ import annotations

from typing import Any

from geartrain.geometry import EUCLIDEAN
from geartrain.methods.afb import AFB
from geartrain.methods.base import AnyMethod, InnerMethod, as_method
from geartrain.methods.choice import Prices
from geartrain.methods.levels import Levels, arranged, innermost, told
from geartrain.methods.registry import METHODS, make_inner, make_method, require_any_geometry
from geartrain.methods.restart import GradientTest, Restarted
from geartrain.methods.train import Train
from geartrain.oracles.protocols import require
from geartrain.problem import MissingConstant, Sum

# Methods by name that take any number of terms. The last two treat all of them as one.
_NAMES = ("auto", "afb", "fgm", "lbfgs")


def make_train(
    method: str | AnyMethod, inner: str | InnerMethod, problem: Sum, prices: Prices
) -> tuple[AnyMethod, str]:
    """The method for a problem with more than two terms, and the words for ``res.plan``."""
    if isinstance(method, str):
        if method not in METHODS and method != "auto":
            make_method(method, "auto", problem)  # an unknown name has an error of its own
        if method not in _NAMES:
            raise ValueError(_refused(repr(method), problem))
        if method in ("fgm", "lbfgs"):
            return make_method(method, inner, problem), f"{method!r} as asked for"
        return _afb(_listed(problem), inner, problem, "as listed"), ""
    made = as_method(method)
    core = getattr(made, "method", made)
    if isinstance(made, Train):
        return _checked(made, problem), ""
    if isinstance(core, AFB):
        return _checked(Train(_listed(problem), made, "as listed"), problem), ""
    if getattr(core, "many_terms", False):
        return make_method(made, inner, problem), "given as an object"
    raise ValueError(_refused(type(core).__name__, problem))


def _listed(problem: Sum) -> Levels:
    """One level per term, in the order in which they were given."""
    return tuple((oracle.name,) for oracle in problem.oracles)


def _afb(levels: Levels, inner: str | InnerMethod, problem: Sum, reason: str) -> Train:
    """AFB on every level; with restarts on the first one where strong convexity is not known."""
    split = arranged(problem, levels)
    method: Any = AFB(inner=make_inner(inner, innermost(split)))
    if not split.mu_h + split.mu_g:
        method = Restarted(method, GradientTest())
    return _checked(Train(levels, method, reason), problem)


def _checked(train: Train, problem: Sum) -> Train:
    """`train`, if its levels hold all terms, and the terms have what it needs."""
    names = [oracle.name for oracle in problem.oracles]
    if sorted(name for level in train.levels for name in level) != sorted(names):
        raise ValueError(
            f"the levels {told(train.levels)} must name every term once: {', '.join(names)}"
        )
    if len(train.levels) < 2 or not all(train.levels):
        raise ValueError(f"a train needs two levels or more, each with a term; got {train.levels}")
    if problem.psi is not None:
        raise ValueError(
            f"a train of more than two terms is not made for a non-smooth term, here "
            f"{problem.psi!r}; give two terms, as in minimize(h1 + h2, g + psi), or take "
            "method='fgm'"
        )
    core, inside = train.core, train.core.inner
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


def _refused(name: str, problem: Sum) -> str:
    names = [oracle.name for oracle in problem.oracles]
    return (
        f"{name} has no form for more than two terms; choose one of {', '.join(_NAMES)}, or add "
        f"up the terms, minimize({' + '.join(names[:-1])}, g)"
    )

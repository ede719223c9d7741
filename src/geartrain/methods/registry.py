"""Methods and inner methods by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import is_dataclass, replace
from typing import Any

from geartrain import methods
from geartrain.geometry import EUCLIDEAN
from geartrain.methods import inner as inner_methods
from geartrain.methods.base import AnyMethod, InnerMethod, Method, as_inner, as_method
from geartrain.methods.restart import GradientTest, Restarted
from geartrain.methods.working_set import WorkingSet, fits
from geartrain.oracles.nonsmooth import Box
from geartrain.oracles.protocols import MissingOracle, answers, can, require
from geartrain.oracles.questions import QUESTIONS
from geartrain.problem import Sum

INNER: dict[str, Callable[[], InnerMethod]] = {
    "agm": inner_methods.AGM,
    "exact": inner_methods.Exact,
    "lbfgs": inner_methods.LBFGS,
    "proxqn": inner_methods.ProxQN,
    "acd": inner_methods.ACD,
    "nesterov-stich": inner_methods.NesterovStich,
    "approx": inner_methods.APPROX,
    "directional": inner_methods.DirectionalSearch,
    "coordinate-differences": inner_methods.CoordinateSearch,
    "katyusha": inner_methods.Katyusha,
    "l-katyusha": inner_methods.LKatyusha,
    "varag": inner_methods.Varag,
    "rpdg": inner_methods.RPDG,
    "spdc": inner_methods.SPDC,
    "apcg": inner_methods.APCG,
}

# Name -> maker from (problem, inner). A maker looks at the problem only to choose a restart.
METHODS: dict[str, Callable[[Sum, Any], AnyMethod]] = {
    "sae": lambda problem, inner: methods.SAE(inner=inner),
    "r-sae": lambda problem, inner: methods.RSAE(inner=inner),
    "sc-sae": lambda problem, inner: _restarted(problem.mu.value, methods.SCSAE(inner=inner)),
    "afb": lambda problem, inner: _restarted(problem.mu_h + problem.mu_g, methods.AFB(inner=inner)),
    "pqn": lambda problem, inner: methods.ProximalQuasiNewton(**_given(inner)),
    "similar-newton": lambda problem, inner: methods.SimilarNewton(),
    "aeg": lambda problem, inner: methods.AEG(inner=inner),
    "gmco": lambda problem, inner: methods.GMCO(inner=inner),
    "fgm": lambda problem, inner: methods.FGM(),
    "acd": lambda problem, inner: _restarted(problem.mu.value, methods.ACDWhole()),
    "ags": lambda problem, inner: methods.AGS(),
    "ms": lambda problem, inner: methods.MonteiroSvaiterWhole(**_given(inner)),
    "lbfgs": lambda problem, inner: lbfgs_on_the_sum(problem),
    "katyusha": lambda problem, inner: methods.KatyushaWhole(),
    "catalyst": lambda problem, inner: methods.Catalyst(**_given(inner)),
}
# Methods that are made for a non-smooth term.
NONSMOOTH: dict[str, Callable[[Sum, Any], AnyMethod]] = {
    "sparsa": lambda problem, inner: methods.SpaRSA(),
    "working-set": lambda problem, inner: WorkingSet(),
    "cgs": lambda problem, inner: methods.CGS(),
    "frank-wolfe": lambda problem, inner: methods.FrankWolfe(),
}
# Methods of `geartrain.equilibrium`, for operators in the place of gradients.
OPERATORS: dict[str, Callable[[Sum], AnyMethod]] = {
    "auto": lambda problem: methods.AndersonResolvent(),
    "hpe": lambda problem: methods.HPE(),
    "extragradient": lambda problem: methods.Extragradient(adaptive=_has_no_constants(problem)),
    "optimistic": lambda problem: methods.OptimisticGradient(adaptive=_has_no_constants(problem)),
    "anderson": lambda problem: methods.Anderson(),
}
# They choose their inner method themselves unless one is given.
_WITH_OWN_INNER = ("pqn", "ms", "catalyst")
_WITH_INNER = ("auto", "sae", "r-sae", "sc-sae", "afb", "aeg", "gmco", *_WITH_OWN_INNER)
# Names that people know from elsewhere, and what comes nearest here.
_FAMILIAR = {"fista": "fgm", "lbfgsb": "lbfgs", "bfgs": "lbfgs", "slsqp": "auto", "cd": "acd"}


def resolved(method: str | AnyMethod, problem: Sum) -> str | AnyMethod:
    """The name as it is in the tables; an object with an inner method in the place of its name."""
    if isinstance(method, str):
        return _key(method, ("auto", *METHODS, *NONSMOOTH), "method")
    if isinstance(inner := getattr(method, "inner", None), str) and is_dataclass(method):
        return replace(method, inner=make_inner(inner, problem))
    if is_dataclass(wrapped := getattr(method, "method", None)) and is_dataclass(method):
        return replace(method, method=resolved(wrapped, problem))
    return method


def takes_inner(method: str | AnyMethod) -> bool:
    """Whether ``inner=`` has a meaning beside this method."""
    return isinstance(method, str) and _squeezed(method) in map(_squeezed, _WITH_INNER)


def lbfgs_on_the_sum(problem: Sum, memory: int = 10) -> AnyMethod:
    """L-BFGS on f: SciPy's where it can, and a proximal quasi-Newton method for other psi."""
    if problem.geometry is not EUCLIDEAN:
        return methods.LBFGSWhole()
    if problem.psi is None or isinstance(problem.psi.term, Box):
        return methods.ScipyLBFGS(memory)
    return methods.ProximalQuasiNewton(rho=1.0)


def _given(inner: InnerMethod | None) -> dict[str, Any]:
    return {} if inner is None else {"inner": inner}


def _restarted(mu: float | None, method: Method) -> Method:
    """Where mu is not known, the momentum is restarted when a step goes uphill."""
    return method if mu else Restarted(method, GradientTest())


def make_inner(inner: str | InnerMethod, problem: Sum) -> InnerMethod:
    """The inner method of that name or the object itself; "auto" by what g answers."""
    if inner == "auto":
        known = answers(problem.g.term)
        if problem.psi is not None and problem.g.term.spherical is not None:
            inner = "exact"
        elif not known.isdisjoint(("grad", "value_and_grad")):
            unknown = "lbfgs" if problem.psi is None else "proxqn"
            inner = unknown if problem.L_g.value is None else "agm"
        elif "prox" in known:
            inner = "exact"
        elif "component" in known:
            inner = "katyusha"
        elif "coord" in known:
            inner = "nesterov-stich"
        else:
            inner = "coordinate-differences"
    made = INNER[_key(inner, INNER, "inner method")]() if isinstance(inner, str) else inner
    return as_inner(made)


def make_method(method: str | AnyMethod, inner: str | InnerMethod, problem: Sum) -> AnyMethod:
    """The method of that name or the object itself, checked against what the terms answer."""
    if isinstance(method, str):
        made = _by_name(method, inner, problem)
    else:
        if isinstance(getattr(method, "inner", None), methods.ProximalQuasiNewton):
            raise TypeError(
                "ProximalQuasiNewton inside another method is for several terms h, "
                "minimize([h1, h2], g), where it is the method of the second level"
            )
        made = as_method(method)
        if inner != "auto":
            raise TypeError(
                "inner= goes with a method given by name; a method object has its own, e.g. "
                "gt.SAE(inner=gt.inner.AGM())"
            )
    core = getattr(made, "method", made)  # inside gt.methods.Restarted
    name, inside = type(core).__name__, getattr(core, "inner", None)
    if problem.geometry is not EUCLIDEAN:
        require_any_geometry(made, problem)
        if inside is not None:
            require_any_geometry(inside, problem)
    if problem.psi is not None:
        require_psi(made, problem)
        if inside is not None:
            require_psi(inside, problem, inner=True)
    require(name, "h", problem.h.term, *made.needs)
    if inside is None:
        require(name, "g", problem.g.term, *made.needs)
        return made
    told = f"{name} with {type(inside).__name__} inside"
    if not getattr(core, "inner_asks_both", False):
        _require_inside(told, inside, made.needs, problem)
        return made
    for role, oracle in (("h", problem.h), ("g", problem.g)):
        require(told, role, oracle.term, *inside.needs)
    for question in inside.needs:
        if not hasattr(problem.whole, question):
            raise MissingOracle(
                f"{told} asks f = h + g for {question!r}, which does not follow from the answers "
                "of h and g; choose another inner method"
            )
    return made


def make_operator_method(method: str | AnyMethod, problem: Sum) -> tuple[AnyMethod, str]:
    """The method of that name, or the object itself, and the words for ``res.plan``."""
    if isinstance(method, str):
        name = _key(method, OPERATORS, "method of equilibrium")
        made, told = OPERATORS[name](problem), f"{name!r} as asked for"
        told = f"{type(made).__name__}, which needs no constants" if name == "auto" else told
    else:
        made, told = as_method(method), "given as an object"
    if "operator" not in made.needs:
        raise TypeError(
            f"{type(made).__name__} is made for functions, not for operators; choose one of "
            f"{', '.join(OPERATORS)}"
        )
    if problem.psi is not None and not _can_take(made, problem):
        able = [key for key, maker in OPERATORS.items() if _can_take(maker(problem), problem)]
        raise TypeError(
            f"{type(made).__name__} is not made for a non-smooth term, here {problem.psi!r}; "
            f"choose one of {', '.join(able) or 'those that take sets with a projection'}"
        )
    return made, told


def _has_no_constants(problem: Sum) -> bool:
    """Whether the lengths of steps have to be found by trial."""
    return problem.L_h.value is None or problem.L_g.value is None


def _require_inside(told: str, inside: InnerMethod, outside: Sequence[str], problem: Sum) -> None:
    """Raise unless g answers what the inner method asks; h may be the one that does."""
    h, g = problem.h.term, problem.g.term
    try:
        require(told, "g", g, *inside.needs)
    except MissingOracle as error:
        if not (all(can(h, q) for q in inside.needs) and all(can(g, q) for q in outside)):
            raise
        raise MissingOracle(
            f"{error} Or exchange h and g: h answers it, and the inner method works on g, the term "
            "that is asked often."
        ) from None


def _by_name(method: str, inner: str | InnerMethod, problem: Sum) -> AnyMethod:
    maker = (METHODS | NONSMOOTH)[method]
    own = inner == "auto" and method in _WITH_OWN_INNER
    inside = None if own else make_inner(inner, problem)
    made = as_method(maker(problem, inside))
    used = getattr(getattr(made, "method", made), "inner", None)
    if inner != "auto" and used is not inside:
        raise TypeError(
            f"method {method!r} has no inner method, so inner= has no meaning there; leave it out, "
            f"or choose one of {', '.join(_WITH_INNER)}"
        )
    return made


def require_any_geometry(method: Any, problem: Sum) -> None:
    """Raise unless `method` works in the geometry of the problem."""
    if not getattr(method, "any_geometry", False):
        name = type(getattr(method, "method", method)).__name__
        raise TypeError(
            f"{name} works in the Euclidean geometry only, not in {problem.geometry!r}; "
            "choose lbfgs, fgm, ags, gmco, ms, sae, r-sae, sc-sae, afb or aeg, with agm, lbfgs or "
            "exact inside"
        )


def require_psi(method: Any, problem: Sum, inner: bool = False) -> None:
    """Raise unless `method` is made for the non-smooth term of the problem."""
    if _can_take(method, problem):
        return
    name = type(getattr(method, "method", method)).__name__
    table, start = (INNER, "inner=") if inner else (METHODS | NONSMOOTH, "method=")
    able = [key for key, maker in table.items() if _takes_psi(maker, problem, inner)]
    why = f"{name} is not made for a non-smooth term, here {problem.psi!r}"
    if getattr(method, "takes_psi", False):
        asked = QUESTIONS[_asked_of_psi(method)]
        why = f"{name} asks {problem.psi!r} for {asked.words} ({asked.name!r}), which it has not"
    raise TypeError(f"{why}; choose {start}{' or '.join(map(repr, able))}")


def _asked_of_psi(method: Any) -> str:
    """The question that the non-smooth term has to answer."""
    return getattr(getattr(method, "method", method), "asks_psi", "prox")


def _can_take(method: Any, problem: Sum) -> bool:
    known = answers(problem.psi.term) if problem.psi is not None else ()
    return getattr(method, "takes_psi", False) and _asked_of_psi(method) in known


def _takes_psi(maker: Any, problem: Sum, inner: bool) -> bool:
    made = maker() if inner else maker(problem, inner_methods.AGM())
    if isinstance(made, WorkingSet):
        return fits(problem)
    return _can_take(made, problem)


def _key(name: str, known: Iterable[str], what: str) -> str:
    """`name` as it is spelled in a table, where case, hyphens and blanks do not matter."""
    keys = {_squeezed(key): key for key in known}
    plain = _squeezed(name)
    if plain in keys:
        return keys[plain]
    near = _FAMILIAR.get(plain) if what == "method" else None
    if near is None:
        near = next((keys[k] for k in difflib.get_close_matches(plain, keys, n=1)), None)
    hint = f"; did you mean {near!r}?" if near else "."
    raise ValueError(f"unknown {what} {name!r}{hint} Choose one of {', '.join(keys.values())}")


def _squeezed(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))

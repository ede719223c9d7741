"""The contracts of methods, and the sentences for objects that do not keep them.

====================  ==========================================================================
`Method`              ``init`` and ``step``: an outer method, one iteration per step
`WholeMethod`         ``solve``: an outer method that runs its own loop, such as SciPy's L-BFGS
`State`               what the driver reads after each iteration
`InnerMethod`         ``init``, ``step`` and ``limit``: a method for the model phi
`InnerState`          its state
`Rule`, `Look`        a stopping rule, and what it can see of a run
====================  ==========================================================================
"""

from __future__ import annotations

import inspect
from functools import lru_cache
from typing import Any

from geartrain.core.contracts import (
    AcceptRule,
    AnyMethod,
    InnerMethod,
    InnerState,
    Method,
    Report,
    State,
    WholeMethod,
)
from geartrain.core.loop import InnerRun, ceiling, drive, iterate, solve_model
from geartrain.core.stopping import Look, Rule
from geartrain.oracles.protocols import QUESTIONS

__all__ = [
    "AcceptRule",
    "AnyMethod",
    "InnerMethod",
    "InnerRun",
    "InnerState",
    "Look",
    "Method",
    "Report",
    "Rule",
    "State",
    "WholeMethod",
    "as_inner",
    "as_method",
    "ceiling",
    "drive",
    "iterate",
    "solve_model",
]

# How each part is called.
_METHOD = {"init": "(problem, x0)", "step": "(problem, state)"}
_WHOLE = {"solve": "(problem, x0, report)"}
_INNER = {"init": "(phi, v0, grad_g0, warm)", "step": "(phi, state)", "limit": "(phi)"}


def as_method(method: Any) -> AnyMethod:
    """`method`, if it keeps the contract; otherwise an error that names the missing part."""
    what = "method"
    _refuse_class(method, what)
    known = any(callable(getattr(method, part, None)) for part in ("init", "step", "solve"))
    if not known:
        raise TypeError(
            f"method must be a name or an object with `init` and `step`, or with `solve` (see "
            f"gt.methods.Method and gt.methods.WholeMethod), got {method!r:.60}"
        )
    whole = callable(getattr(method, "solve", None))
    _check_parts(method, what, _WHOLE if whole else _METHOD)
    if (wrapped := getattr(method, "method", None)) is not None:  # gt.methods.Restarted
        as_method(wrapped)
    if (inner := getattr(method, "inner", None)) is not None:
        as_inner(inner)
    return method


def as_inner(inner: Any) -> InnerMethod:
    """`inner`, if it keeps the contract; otherwise an error that names the missing part."""
    what = "inner method"
    _refuse_class(inner, what)
    if not callable(getattr(inner, "step", None)):
        raise TypeError(
            f"inner must be a name or an inner method (see gt.methods.InnerMethod), got "
            f"{inner!r:.60}"
        )
    _check_parts(inner, what, _INNER)
    return inner


def _refuse_class(given: Any, what: str) -> None:
    if isinstance(given, type):
        raise TypeError(
            f"{what} must be an object, but {given.__name__} is a class; write {given.__name__}()"
        )


def _check_parts(given: Any, what: str, parts: dict[str, str]) -> None:
    name = type(given).__name__
    for part, call in parts.items():
        function = getattr(given, part, None)
        if not callable(function):
            raise TypeError(
                f"the {what} {name} has no `{part}{call}`, which every {what} of its kind has; see "
                f"gt.methods"
            )
        if not _takes(function, call.count(",") + 1):
            raise TypeError(
                f"`{part}` of the {what} {name} must take {call}, but its signature is "
                f"{inspect.signature(function)}"
            )
    needs = getattr(given, "needs", None)
    if not isinstance(needs, tuple) or not set(needs) <= set(QUESTIONS):
        has = "no `needs`" if needs is None else f"needs = {needs!r}"
        raise TypeError(
            f"the {what} {name} has {has}; it must be a tuple of the questions it asks, such as "
            f"needs = ('grad',), out of {', '.join(QUESTIONS)}"
        )


def _takes(function: Any, arguments: int) -> bool:
    """Whether `function` can be called with that many positional arguments."""
    plain = getattr(function, "__func__", None)  # of a bound method, which also gets self
    try:
        return _binds(function, arguments) if plain is None else _binds(plain, arguments + 1)
    except TypeError:  # not hashable
        return _binds.__wrapped__(function, arguments)


@lru_cache(maxsize=256)
def _binds(function: Any, arguments: int) -> bool:
    try:
        signature = inspect.signature(function)
    except ValueError:  # built-in functions may not tell
        return True
    try:
        signature.bind(*range(arguments))
    except TypeError:
        return False
    return True

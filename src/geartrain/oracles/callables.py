"""A term that is made of functions of the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from geartrain.oracles.algebra import Algebra
from geartrain.oracles.protocols import Vector, answers
from geartrain.oracles.questions import QUESTIONS
from geartrain.oracles.validation import (
    as_nonnegative,
    as_number,
    as_positive,
    as_vector,
    as_whole,
    unless_none,
)


class Term(Algebra):
    """A term that is made of callables; it answers exactly the questions that are given.

    Parameters
    ----------
    value_and_grad : callable, optional
        ``x -> (value, gradient)`` in one pass.
    *jac : callable, optional
        A second function without a name, ``Term(fun, jac)`` as in SciPy: then the first one gives
        the value and the second one the gradient.
    n : int, optional
        Dimension; with it `minimize` can start from zero if no x0 is given.
    n_components : int, optional
        Number of summands; needed if `component` is given.
    L, mu : float, optional
        Lipschitz constant of the gradient and strong convexity constant.
    L_coord, L_components : array, optional
        Lipschitz constants of the partial derivatives and of the summands' gradients.
    noise : float
        Bound on the error of a value, by which differences of values choose their steps.
    M3 : float, optional
        Bound on the third derivative along a coordinate, used for the same steps.
    convex : bool
        Whether the term is convex; give False if it may not be.
    lower_bound : float, optional
        A number that no value is below, such as 0 for a loss. With an l1 norm it gives a
        certificate.
    diameter : float, optional
        Of a set that is given by `lmo`: a bound on the distance of two of its points.
    **functions : callable
        Answers to the other questions, by name: ``value(x)``, ``grad(x)``, ``component(x, k)``
        (the gradient of the k-th of `n_components` summands, where the term is their mean),
        ``coord(x, i)`` (the i-th partial derivative), ``prox(u, alpha)`` (the minimiser of
        ``term(v) + alpha/2 |v - u|^2``), ``products(x, D)`` (the Hessian times the columns of D),
        ``second_order(x, D)`` (value, gradient and products in one pass) and ``lmo(d)`` (of a set:
        the minimiser of ``<d, v>`` over it).

    Examples
    --------
    >>> import geartrain as gt
    >>> term = gt.Term(lambda x: (0.5 * x @ x, x), L=1.0, mu=1.0, n=3)
    >>> term
    Term(grad and value together, n=3, L=1)
    >>> gt.Term(lambda x: 0.5 * x @ x, lambda x: x, n=3)
    Term(grad, value, n=3)
    """

    calls_user_code = True

    def __init__(
        self,
        value_and_grad: Callable[[Vector], Any] | None = None,
        *jac: Callable[[Vector], Any],
        n: int | None = None,
        n_components: int | None = None,
        L: float | None = None,
        mu: float = 0.0,
        L_coord: Any = None,
        L_components: Any = None,
        noise: float = 0.0,
        M3: float | None = None,
        convex: bool = True,
        lower_bound: float | None = None,
        diameter: float | None = None,
        **functions: Callable[..., Any] | None,
    ) -> None:
        if unknown := functions.keys() - QUESTIONS.keys():
            raise TypeError(
                f"Term has no parameter {min(unknown)!r}; the functions that it takes are "
                f"{', '.join(QUESTIONS)}"
            )
        given = {"value_and_grad": value_and_grad, **functions}
        if jac:
            if len(jac) > 1 or {"value", "grad"} & functions.keys():
                raise TypeError(
                    "Term takes one function, x -> (value, gradient), or two, value and gradient "
                    "as in SciPy, without a name; give the others by name, e.g. prox="
                )
            given = {"value": value_and_grad, "grad": jac[0], **functions}
        for name, fn in given.items():
            if fn is None:
                continue
            if not callable(fn):
                raise TypeError(f"Term: {name} must be callable, got {type(fn).__name__}")
            setattr(self, name, fn)
        if not any(given.values()):
            raise TypeError("Term needs at least one callable, e.g. value_and_grad")
        if given.get("component") is not None and n_components is None:
            raise TypeError("Term: component needs n_components, the number of summands")
        self.n = unless_none(as_whole, n, "n", 1)
        self.n_components = unless_none(as_whole, n_components, "n_components", 1)
        self.L = unless_none(as_positive, L, "L")
        self.mu = as_nonnegative(mu, "mu")
        if self.L is not None and self.mu > self.L:
            raise ValueError(f"mu = {self.mu:g} exceeds L = {self.L:g}: no function has that")
        self.L_coord = unless_none(as_vector, L_coord, "L_coord", n)
        self.L_components = unless_none(as_vector, L_components, "L_components", n_components)
        for name in ("L_coord", "L_components"):
            constants = getattr(self, name)
            if constants is not None and np.any(constants < 0):
                raise ValueError(f"{name} must not be negative")
        self.noise = as_nonnegative(noise, "noise")
        self.M3 = unless_none(as_nonnegative, M3, "M3")
        self.convex = convex
        self.lower_bound = unless_none(as_number, lower_bound, "lower_bound")
        self.diameter = unless_none(as_nonnegative, diameter, "diameter")

    def __getattr__(self, name: str) -> Callable[[Vector], Any]:
        """``value`` and ``grad`` as other terms have them, where both are given together."""
        both = self.__dict__.get("value_and_grad")
        if both is None or name not in ("value", "grad"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        def part(x: Vector) -> Any:
            return both(x)[name == "grad"]

        part.taken_from = "value_and_grad"  # type: ignore[attr-defined]
        return part

    @classmethod
    def from_scipy(
        cls, fun: Callable[..., Any], jac: Any, args: tuple[Any, ...] = (), **constants: Any
    ) -> Term:
        """A term from the arguments of `scipy.optimize.minimize`.

        Parameters
        ----------
        fun : callable
            ``fun(x, *args) -> float``, or ``-> (float, array)`` with ``jac=True``.
        jac : callable or True
            ``jac(x, *args) -> array (n,)``, or True if `fun` returns the gradient, too.
        args : tuple
            Further arguments of both functions.
        **constants
            As for `geartrain.Term`: n, L, mu, ...

        Returns
        -------
        Term
            It answers ``value`` and ``grad``, or both together.

        Examples
        --------
        >>> import geartrain as gt
        >>> from scipy.optimize import rosen, rosen_der
        >>> gt.Term.from_scipy(rosen, rosen_der, n=3, convex=False)
        Term(grad, value, n=3)
        """
        if jac is True:
            return cls(lambda x: fun(x, *args), **constants)
        if not callable(jac):
            raise TypeError(f"from_scipy: jac must be callable or True, got {jac!r:.60}")
        if not callable(fun):
            raise TypeError(f"from_scipy: fun must be callable, got {type(fun).__name__}")
        return cls(value=lambda x: fun(x, *args), grad=lambda x: jac(x, *args), **constants)

    def __repr__(self) -> str:
        known = answers(self)
        words = "grad and value together" if "value_and_grad" in known else ""
        rest = sorted(known - {"value_and_grad"})
        parts = [words, *rest] if words else rest
        if self.n is not None:
            parts.append(f"n={self.n}")
        if self.L is not None:
            parts.append(f"L={self.L:g}")
        return f"Term({', '.join(parts)})"

"""Monotone operators that are given as functions: fields of forces, games, saddle points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from geartrain.oracles.algebra import Algebra
from geartrain.oracles.protocols import Vector
from geartrain.oracles.validation import as_nonnegative, as_positive, as_whole, unless_none


class Operator(Algebra):
    r"""An operator of `geartrain.equilibrium`, given as a function.

    It need not be the gradient of anything. It should be monotone together with the other one:
    <R(u) - R(v), u - v> >= 0 for all u and v, where R = P + Q. Operators can be added to each
    other, to terms with gradients and to sets, and multiplied by numbers.

    Parameters
    ----------
    fn : callable
        ``z -> array`` of the shape of z.
    n : int, optional
        Dimension; with it `geartrain.equilibrium` can start from zero if no x0 is given.
    L : float, optional
        Lipschitz constant.
    mu : float
        Strong monotonicity: <R(u) - R(v), u - v> >= mu \|u - v\|^2.

    Examples
    --------
    >>> import numpy as np, geartrain as gt
    >>> rotation = gt.Operator(lambda z: np.array([z[1], -z[0]]), n=2, L=1.0)
    >>> rotation
    Operator(n=2, L=1)
    >>> gt.equilibrium(rotation, gt.Quadratic(np.eye(2), [1.0, 0.0])).x.round(3)
    array([0.5, 0.5])
    """

    calls_user_code = True

    def __init__(
        self,
        fn: Callable[[Vector], Any],
        n: int | None = None,
        L: float | None = None,
        mu: float = 0.0,
    ) -> None:
        if not callable(fn):
            raise TypeError(f"Operator needs a function z -> array, got {type(fn).__name__}")
        self.operator = fn
        self.n = unless_none(as_whole, n, "n", 1)
        self.L = unless_none(as_positive, L, "L")
        self.mu = as_nonnegative(mu, "mu")
        if self.L is not None and self.mu > self.L:
            raise ValueError(f"mu = {self.mu:g} exceeds L = {self.L:g}: no operator has that")

    def __repr__(self) -> str:
        facts = [] if self.n is None else [f"n={self.n}"]
        facts += [] if self.L is None else [f"L={self.L:g}"]
        return f"{type(self).__name__}({', '.join(facts)})"


# Paper: saddle-point problems
class Saddle(Operator):
    """The operator of min over x, max over y of s(x, y): [grad_x s; -grad_y s] at z = [x; y].

    It is monotone where s is convex in x and concave in y.

    Parameters
    ----------
    grad_x, grad_y : callable
        ``(x, y) -> array``, the gradients of s; the sign of the second is taken care of.
    split : int
        The number of variables in x; y are the others.
    n, L, mu
        As for `geartrain.Operator`; n counts all variables.

    Examples
    --------
    >>> import numpy as np, geartrain as gt
    >>> A = np.array([[2.0, 1.0], [0.0, 3.0]])
    >>> game = gt.Saddle(lambda x, y: A @ y, lambda x, y: A.T @ x, split=2, n=4)
    >>> res = gt.equilibrium(game, gt.Quadratic(np.eye(4), np.ones(4)), tol=1e-9)
    >>> x, y = np.split(res.x, [2])
    >>> np.abs(A @ y + x - 1).max() < 1e-8, np.abs(-A.T @ x + y - 1).max() < 1e-8
    (np.True_, np.True_)
    """

    def __init__(
        self,
        grad_x: Callable[[Vector, Vector], Any],
        grad_y: Callable[[Vector, Vector], Any],
        split: int,
        n: int | None = None,
        L: float | None = None,
        mu: float = 0.0,
    ) -> None:
        for name, fn in (("grad_x", grad_x), ("grad_y", grad_y)):
            if not callable(fn):
                raise TypeError(f"Saddle: {name} must be callable, got {type(fn).__name__}")
        self.split = as_whole(split, "split", 1)
        super().__init__(self._field, n, L, mu)
        if self.n is not None and self.split >= self.n:
            raise ValueError(f"split = {split} leaves no variables for y, since n = {n}")
        self.grad_x, self.grad_y = grad_x, grad_y

    def _field(self, z: Vector) -> Vector:
        z = np.asarray(z)
        if z.ndim != 1 or z.size <= self.split:
            raise ValueError(
                f"Saddle with split = {self.split} needs vectors [x; y] of more than {self.split} "
                f"entries, got the shape {z.shape}"
            )
        x, y = np.split(z, [self.split])
        parts = np.asarray(self.grad_x(x, y)), np.asarray(self.grad_y(x, y))
        for name, variable, part in zip(("grad_x", "grad_y"), (x, y), parts, strict=True):
            if part.shape != variable.shape:
                raise ValueError(
                    f"Saddle: {name} answered with shape {part.shape}, expected {variable.shape}"
                )
        return np.concatenate([parts[0], -parts[1]])

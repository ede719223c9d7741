r"""Conditional gradient sliding of Lan and Zhou, for a set that has linear minimisations alone.

==========  ===================  ===========================================================
symbol      name                 meaning
==========  ===================  ===========================================================
C           ``psi``              the set, compact and convex
lmo(d)      ``psi.lmo``          argmin <d, v> over all v in C
D           ``D``                diameter of C
f           --                   h + g on C, convex
L           ``L``                smoothness of f
x, y, z     same                 end of CndG; output; where the gradient is taken
G, s        ``grad_z``, ``s``    the gradient at z, and lmo(G)
u, v        same                 the sequence of CndG, and the answers that it goes towards
==========  ===================  ===========================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from geartrain.methods import smoothness
from geartrain.methods.base import State
from geartrain.oracles.protocols import Vector
from geartrain.oracles.splitting import Psi
from geartrain.oracles.vectors import dot, norm
from geartrain.problem import EPS, MissingConstant, Sum

# Rounding errors of <d, u - v>, over eps |d| (|u| + |v|). From these parts on, an answer that is
# not the minimiser and a diameter that is too small are no rounding errors.
_ROUNDED, _WRONG, _FAR = 10.0, 1e-6, 1e-9


@dataclass(frozen=True, kw_only=True)
class CGSState(State):
    """State of `CGS` after k iterations, with all that the next one begins with."""

    k: int
    x: Vector
    y: Vector
    z: Vector  # z_{k+1}
    grad_z: Vector
    s: Vector  # lmo(grad_z)
    L: float
    D: float
    frank_wolfe_gap: float  # max <G, z - v> over C
    gap_bound: float = math.nan  # 15 L D^2/(2 (k + 1)(k + 2)), at y
    gap_rests_on: tuple[str, ...] = ()
    rounding: bool = False  # the gap is rounding error

    @property
    def point(self) -> Vector:
        return self.y

    @property
    def grad_point(self) -> Vector:
        """The point z, which is in C, too, and whose Frank-Wolfe gap is known."""
        return self.z

    @property
    def stalled(self) -> bool:  # type: ignore[override]
        """Whether the gap is rounding error."""
        return self.rounding


# Paper: conditional gradient sliding
@dataclass(frozen=True)
class CGS:
    r"""Conditional gradient sliding: one gradient, and few linear minimisations, per iteration.

    Minimises f = h + g over a set C that has linear minimisations and need not have a projection.

    Algorithm, from x_0 = y_0 in C, with beta_k = 3 L/(k + 1), gamma_k = 3/(k + 2) and
    eta_k = L D^2/(k (k + 1)), for k = 1, 2, ...::

        1. z_k = (1 - gamma_k) y_{k-1} + gamma_k x_{k-1}, G = grad f(z_k)
        2. x_k = CndG(G, x_{k-1}, beta_k, eta_k)
        3. y_k = (1 - gamma_k) y_{k-1} + gamma_k x_k

        CndG(G, x, beta, eta), from u = x:
        a. d = G + beta (u - x), v = lmo(d)
        b. if <d, u - v> <= eta, the answer is u
        c. u = (1 - alpha) u + alpha v, alpha = min(1, <d, u - v>/(beta |v - u|^2)); go to a.

    Guarantee: f(y_k) - f* <= 15 L D^2/(2 (k + 1)(k + 2)) ([1]_, Section 2), and CndG ends after
    at most 12 k linear minimisations (`geartrain.theory.conditional_gradient_sliding` tells why).
    So an accuracy eps takes about sqrt(7.5 L D^2/eps) gradients and of order L D^2/eps linear
    minimisations. One gradient of h and one of g per iteration. The first d of CndG is G itself,
    so that the Frank-Wolfe gap at z, max <G, z - v> over C >= f(z) - f*, is known without a
    further call: by it a run ends.

    Parameters
    ----------
    L : float, optional
        Of f; L_h + L_g if not given.

    Notes
    -----
    An iteration ends with the gradient at the next z and the first answer of the next CndG, so that
    a run ends as soon as its gap is small. The result is the point z or y with the smallest bound.
    Where a set has a projection, other methods need far fewer gradients.

    Deviation: CndG also ends where its gap is rounding error.

    References
    ----------
    .. [1] G. Lan, Y. Zhou, Conditional gradient sliding for convex optimization, SIAM J. Optim. 26
       (2016).
    """

    L: float | None = None

    needs: ClassVar[tuple[str, ...]] = ("grad",)
    many_terms: ClassVar[bool] = True
    takes_psi: ClassVar[bool] = True
    asks_psi: ClassVar[str] = "lmo"

    def init(self, problem: Sum, x0: Vector) -> CGSState:
        """z_1 = x_0."""
        psi = set_of(problem, "CGS")
        if psi.diameter is None:
            raise MissingConstant(
                f"CGS needs the diameter of {psi!r}: give the object an attribute `diameter`, a "
                "bound on the distance of two points of the set, or choose method='frank-wolfe'"
            )
        L, grad = smoothness.of_sum(problem, self.L, "CGS"), problem.grad(x0)
        s, gap, error = linear_minimiser(psi, grad, x0)
        return CGSState(
            k=0,
            x=x0,
            y=x0,
            z=x0,
            grad_z=grad,
            s=s,
            L=L,
            D=psi.diameter,
            frank_wolfe_gap=gap,
            gap_rests_on=() if self.L is not None else ("L_h", "L_g"),
            rounding=gap <= error,
        )

    def step(self, problem: Sum, state: CGSState) -> CGSState:
        """Lines 2 and 3, and line 1 of the next iteration."""
        L, D, k, psi = state.L, state.D, state.k + 1, set_of(problem, "CGS")
        if state.stalled:
            return replace(state, k=k)
        beta, gamma, eta = 3.0 * L / (k + 1), gamma_of(k), L * D**2 / (k * (k + 1))
        # 2.
        x = _cndg(psi, state, beta, eta)
        # 3.
        y = between(state.y, x, gamma)
        # 1.
        z = between(y, x, gamma_of(k + 1))
        grad = problem.grad(z)
        s, gap, error = linear_minimiser(psi, grad, z)
        return replace(
            state,
            k=k,
            x=x,
            y=y,
            z=z,
            grad_z=grad,
            s=s,
            frank_wolfe_gap=gap,
            gap_bound=7.5 * L * D**2 / ((k + 1) * (k + 2)),
            rounding=gap <= error,
        )


def gamma_of(k: int) -> float:
    """gamma_k = 3/(k + 2)."""
    return 3.0 / (k + 2)


def _cndg(psi: Psi, state: CGSState, beta: float, eta: float) -> Vector:
    """Procedure CndG of [1]."""
    x = u = state.x
    d, v = state.grad_z, state.s  # a.
    gap, error = dot(d, u - v), rounding(d, u, v)
    while gap > max(eta, error):  # b.
        if (far := norm(v - u)) > state.D * (1.0 + _FAR):
            raise ValueError(
                f"the stated diameter {state.D:g} of {psi!r} is too small: two points of the set "
                f"are {far:g} apart"
            )
        u = between(u, v, min(1.0, gap / (beta * far**2)))  # c.
        d = state.grad_z + beta * (u - x)  # a.
        v, gap, error = linear_minimiser(psi, d, u)
    return u


def linear_minimiser(psi: Psi, d: Vector, u: Vector) -> tuple[Vector, float, float]:
    """v = lmo(d); <d, u - v>, which is not negative for a u in the set; and its rounding error."""
    v = psi.lmo(d)
    gap, error = dot(d, u - v), rounding(d, u, v)
    if gap < -_WRONG * norm(d) * norm(u - v) - error:
        raise ValueError(
            f"lmo(d) of {psi!r} is not the minimiser of <d, v>: that is {dot(d, v):g} there, and "
            f"{dot(d, u):g} at another point of the set; is its sign right?"
        )
    return v, gap, error


def set_of(problem: Sum, name: str) -> Psi:
    """The set of a problem that has one."""
    if problem.psi is None:
        raise TypeError(
            f"{name} minimises over a set: add one to g that has lmo(d), the minimiser of <d, v>, "
            "and diameter, such as gt.Simplex()"
        )
    return problem.psi


def between(u: Vector, v: Vector, t: float) -> Vector:
    """(1 - t) u + t v."""
    return (1.0 - t) * u + t * v


def rounding(d: Vector, u: Vector, v: Vector) -> float:
    """The size of the rounding error of <d, u - v>."""
    return _ROUNDED * EPS * norm(d) * (norm(u) + norm(v))

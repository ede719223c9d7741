"""Exact solution of the inner problem by g's proximal step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from geartrain.oracles.protocols import MissingOracle, Vector
from geartrain.problem import Model


@dataclass(frozen=True)
class ExactState:
    """State of `Exact`: done after one step."""

    v: Vector
    grad_g: Vector
    grad_psi: Vector | None = None  # in a model with psi
    guessed: bool = False


@dataclass(frozen=True)
class Exact:
    r"""The minimiser of phi by one proximal step of g.

    Algorithm: phi(v) = g(v) + alpha/2 \|v + beta/alpha\|^2 + const, hence
    v = prox(-beta/alpha, alpha), [1]_.

    Guarantee: v is the minimiser, after one proximal step of g. There grad g(v) = -beta - alpha v,
    so no gradient of g is asked for. A `geartrain.Quadratic` factorises Q + alpha I once for a
    given alpha. With a non-smooth psi in phi, g has to be c/2 \|v\|^2 - <b, v>, or nothing; then
    v = prox((b - beta)/(alpha + c), alpha + c) by the proximal operator of psi.

    References
    ----------
    .. [1] J.-J. Moreau, Proximite et dualite dans un espace hilbertien, Bull. Soc. Math. France 93
       (1965).
    """

    needs: ClassVar[tuple[str, ...]] = ("prox",)
    any_geometry: ClassVar[bool] = True
    takes_psi: ClassVar[bool] = True

    def init(
        self, phi: Model, v0: Vector, grad_g0: Vector | None, warm: ExactState | None = None
    ) -> ExactState:
        """Solve; there is nothing to iterate."""
        if phi.psi is not None:
            spherical = phi.g.term.spherical
            if spherical is None:
                raise MissingOracle(
                    f"Exact solves models with {phi.psi!r} only where g is c/2 |x|^2 - <b, x>, but "
                    f"g = {phi.g.term!r}; choose inner='agm' or inner='proxqn'"
                )
            c, b = spherical
            v = phi.psi.prox((b - phi.beta) / (phi.alpha + c), phi.alpha + c)
            grad_g = c * v - b
            return ExactState(v, grad_g, -phi.beta - phi.alpha * v - grad_g)
        v = phi.g.prox(-phi.beta / phi.alpha, phi.alpha)
        return ExactState(v, -phi.beta - phi.alpha * v)

    def step(self, phi: Model, state: ExactState) -> ExactState:
        """Nothing is left to do."""
        return state

    def limit(self, phi: Model) -> int:
        """No step is needed: the start is the minimiser."""
        return 0

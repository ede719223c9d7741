r"""GMCO: the gradient method for composite optimisation, the middle loop (Algorithm 3).

=========  ============  ====================================================
symbol     name          meaning
=========  ============  ====================================================
zeta       ``zeta``      iterate; the gradients of h and g are known here
F_{L,x}    ``F``         f + L/2 \|. - x\|^2, the function to minimise
phi_k      ``phi``       model (4): h linearised at zeta, plus L_h/2 \|. - zeta\|^2
=========  ============  ====================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

from geartrain.methods import smoothness
from geartrain.methods.base import InnerMethod, State, ceiling, iterate, solve_model
from geartrain.methods.inner.agm import AGM
from geartrain.methods.inner_rule import PaperRule, as_rule
from geartrain.oracles.protocols import Vector
from geartrain.problem import EPS, Envelope, Model, Sum


@dataclass(frozen=True, kw_only=True)
class GMCOState(State):
    """State of `GMCO`."""

    zeta: Vector
    grad_h: Vector  # gradient of h at zeta
    grad_g: Vector | None  # gradient of g at zeta; None before the first step if not known
    L_h: float  # the constant in use: raised when h shows more curvature
    k: int = 0
    inner_steps: int = 0  # of the last inner run
    grad_psi: Vector | None = None  # in dpsi(zeta): the one for which the test is easiest
    note: str = ""

    @property
    def point(self) -> Vector:
        return self.zeta

    @property
    def grad(self) -> Vector | None:
        """Gradient of f at zeta; with psi, its subgradient u of the test."""
        return None if self.grad_g is None else total(self.grad_h + self.grad_g, self.grad_psi)


def total(grad: Vector, grad_psi: Vector | None) -> Vector:
    """A subgradient of f: the gradient of its smooth part, plus one of psi where there is a psi."""
    return grad if grad_psi is None else grad + grad_psi


# Paper: equation (23)
@dataclass(frozen=True)
class MonteiroSvaiter:
    r"""The test that ends the middle loop: \|grad F_{L,x}(zeta)\| <= sigma L \|zeta - x\|."""

    sigma: float

    def ratio(self, F: Envelope, state: GMCOState) -> float:
        """The left side over L |zeta - x|; the test is met while it is at most sigma."""
        assert state.grad is not None
        return ms_ratio(F, state.zeta, state.grad)

    def met(self, F: Envelope, state: GMCOState) -> bool:
        """Whether zeta passes."""
        return state.grad is not None and self.ratio(F, state) <= self.sigma

    def over(self, F: Envelope, state: GMCOState) -> bool:
        """Whether zeta passes, or no point ever will."""
        return self.met(F, state) or self.is_rounding(F, state)

    def is_rounding(self, F: Envelope, state: GMCOState) -> bool:
        """Whether grad F is rounding error at zeta."""
        assert state.grad is not None and state.grad_g is not None
        norm = F.f.geometry.norm
        curvature = F.L + state.L_h + (F.f.L_g.value or 0.0)
        size = norm(state.grad_h) + norm(state.grad_g) + curvature * norm(state.zeta)
        return norm(F.grad(state.zeta, state.grad)) <= 10.0 * EPS * size


def ms_ratio(F: Envelope, y: Vector, grad_f: Vector) -> float:
    """|grad F_{L,x}(y)| / (L |y - x|)."""
    norm = F.f.geometry.norm
    residual, distance = norm(F.grad(y, grad_f)), norm(y - F.x)
    if distance == 0.0:
        return 0.0 if residual == 0.0 else float("inf")
    return residual / (F.L * distance)


# Paper: Algorithm 3
# Paper: equation (4)
@dataclass(frozen=True)
class GMCO:
    r"""Gradient method for composite optimisation, on F_{L,x} = f + L/2 \|. - x\|^2.

    Algorithm (procedure GMCO of Algorithm 1 of [1]_, and Algorithm 3), for k = 1, 2, ...::

        1. phi_k(v) = <grad h(zeta), v> + g(v) + L/2 |v - x|^2 + L_h/2 |v - zeta|^2
        2. zeta_+ ~ argmin phi_k by the inner method, started at zeta

    Guarantee (Theorem 2): F(zeta_K) - F* <= exp(-K (mu + L)/(4 L_h)) (F(zeta_0) - F*) with
    exact inner solutions. One gradient of h per step.

    With a non-smooth term psi, which stays in the model, grad f(v) is a subgradient
    u = grad h(v) + grad g(v) + w with w in dpsi(v), the one for which \|u + L (v - x)\| is least.

    Parameters
    ----------
    inner : inner method
    weight : float
        The model has weight L_h/2 \|v - zeta\|^2; 1 in the paper. For convex h one half is
        enough, since \|grad h(v) - grad h(zeta) - L_h/2 (v - zeta)\| <= L_h/2 \|v - zeta\|.
    accuracy : float
        The inner run ends at \|grad phi(v)\| <= accuracy L \|v - x\|.
    rule : {"residual", "paper"} or `geartrain.methods.PaperRule`
        The rule above, or that of the paper: N_M calls of the basic oracle of g per inner run.

    Notes
    -----
    As a method of its own (``method="gmco"``) it has L = 0 and minimises f; the inner run then
    ends at \|grad phi(v)\| <= accuracy L_h \|v - zeta\|.

    A pair of gradients of h that shows more curvature than L_h raises L_h and leaves a note.

    References
    ----------
    .. [1] A. Ivanova et al., Oracle complexity separation in convex optimization, J. Optim. Theory
       Appl. 193 (2022).
    """

    inner: InnerMethod = field(default_factory=AGM)
    weight: float = 1.0
    accuracy: float = 0.1
    rule: str | PaperRule = "residual"

    needs: ClassVar[tuple[str, ...]] = ("grad",)
    any_geometry: ClassVar[bool] = True
    takes_psi: ClassVar[bool] = True

    def __post_init__(self) -> None:
        as_rule(self.rule)

    def init(self, problem: Sum | Envelope, zeta0: Vector) -> GMCOState:
        f = problem.f if isinstance(problem, Envelope) else problem
        L_h = f.L_h.need("L_h", "GMCO")
        grad_h, grad_g = f.h.grad(zeta0), f.g.grad(zeta0)
        grad_psi = f.grad_psi(zeta0, grad_h + grad_g)
        return GMCOState(zeta=zeta0, grad_h=grad_h, grad_g=grad_g, L_h=L_h, grad_psi=grad_psi)

    def step(
        self, problem: Sum | Envelope, state: GMCOState, v0: Vector | None = None
    ) -> GMCOState:
        """One model and one inner run, from `v0` if that is given instead of zeta."""
        if isinstance(problem, Envelope):
            f, L, x, key = problem.f, problem.L, problem.x, problem.key
        else:
            f, L, x, key = problem, 0.0, state.zeta, ()
        zeta, L_h, norm = state.zeta, state.L_h, f.geometry.norm
        weight = self.weight * L_h
        # (4): phi(v) = <grad h(zeta), v> + g(v) + L/2 |v - x|^2 + L_h/2 |v - zeta|^2
        phi = Model(
            f.g,
            beta=state.grad_h - L * x - weight * zeta,
            alpha=L + weight,
            L_g=f.L_g.value,
            mu_g=f.mu_g,
            key=(f.seed, *key, state.k),
            geometry=f.geometry,
            psi=f.psi,
        )
        scale = self.accuracy * (L if L > 0.0 else L_h)

        def accept(v: Vector, grad_g: Vector, grad_phi: Vector) -> bool:
            return norm(grad_phi) <= scale * norm(v - x)

        rule = as_rule(self.rule)
        calls = None if rule is None else rule.basic_calls(f, self.inner, L, L_h)
        grad_g0 = state.grad_g if v0 is None else None
        run = solve_model(
            self.inner,
            phi,
            zeta if v0 is None else v0,
            accept,
            grad_g0=grad_g0,
            calls=calls,
        )
        grad_h = f.h.grad(run.v)
        size = norm(grad_h) + L_h * norm(zeta)
        change = grad_h - state.grad_h
        L_h, note = smoothness.checked(L_h, run.v - zeta, change, size, f.geometry)
        pull = L * (run.v - x)
        grad_psi = f.grad_psi(run.v, grad_h + run.grad_g + pull, run.grad_psi)
        return GMCOState(
            zeta=run.v,
            grad_h=grad_h,
            grad_g=run.grad_g,
            L_h=L_h,
            k=state.k + 1,
            inner_steps=run.steps,
            grad_psi=grad_psi,
            note=note or state.note,
        )


@dataclass(frozen=True, kw_only=True)
class EnvelopeState(State):
    """What SAE and SC-SAE know after k iterations, each of which is a run of GMCO."""

    k: int
    A: float
    z: Vector
    grad_h: Vector  # gradient of h at the output
    grad_g: Vector  # gradient of g at the output
    L: float
    L_h: float  # in use by the middle loop
    ms_ratio: float = math.nan  # of the test, at the end of the last run
    middle_steps: int = 0  # of the last run
    since: int = 0  # iterations since the last restart
    uphill: float = -math.inf  # <grad f(output), output - the one before>
    stalled: bool = False
    rounding: bool = False
    grad_psi: Vector | None = None  # in dpsi(output): where the subgradient is shortest
    note: str = ""

    @property
    def gap_weight(self) -> float:  # type: ignore[override]
        """A, as long as every test was passed and there was no restart."""
        return math.nan if self.stalled or self.since < self.k else self.A

    @property
    def grad(self) -> Vector:
        """Gradient of f at the output, known from the test; with psi, its shortest subgradient."""
        return total(self.grad_h + self.grad_g, self.grad_psi)

    def run(
        self, gmco: GMCO, F: Envelope, test: MonteiroSvaiter, v0: Vector | None = None
    ) -> tuple[Vector, Vector, dict[str, Any]]:
        """GMCO on F from its centre until the test, with an inner run that starts at `v0`.

        The answer is the point, the gradient of f there, and the further fields of the next state.
        """
        if F.x is self.point:  # then both gradients are known
            grad_h, grad_g = self.grad_h, self.grad_g
        else:
            grad_h, grad_g = F.f.h.grad(F.x), None
        start = GMCOState(zeta=F.x, grad_h=grad_h, grad_g=grad_g, L_h=self.L_h)
        zeta, steps = iterate(
            lambda s: gmco.step(F, s),
            gmco.step(F, start, v0),
            lambda s: test.over(F, s),
            limit=100 + ceiling(20.0 * self.L_h / F.L),
        )
        assert zeta.grad is not None and zeta.grad_g is not None
        ratio = test.ratio(F, zeta)
        fields = {
            "k": self.k + 1,
            "grad_h": zeta.grad_h,
            "grad_g": zeta.grad_g,
            "L": self.L,
            "L_h": zeta.L_h,
            "ms_ratio": ratio,
            "middle_steps": steps + 1,
            "since": self.since + 1,
            "uphill": float(F.f.geometry.dot(zeta.grad, zeta.zeta - self.point)),
            "stalled": ratio > test.sigma,
            "rounding": test.is_rounding(F, zeta),
            "grad_psi": F.f.grad_psi(zeta.zeta, zeta.grad_h + zeta.grad_g, zeta.grad_psi),
            "note": zeta.note,
        }
        return zeta.zeta, zeta.grad, fields

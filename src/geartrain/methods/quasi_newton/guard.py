r"""The guard: a step of a proven method whenever the certificate lags behind its rate.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
N          ``calls``       calls of h so far
K          ``credit``      calls that are free: K_0, and two for every proven step that failed;
                           more after one that left the domain of a term
L_seen     ``L_seen``      largest |change of grad h|/|step| seen, a lower bound of L_h
A          --              of `geartrain.methods.quasi_newton.certificate`
slope      ``slope``       sqrt(A) >= slope (N - K)/sqrt(L_seen) is asked for
L          ``L``           of the proven step: L a^2 = A + a, x = (A y + a z)/(A + a)
zeta       ``ZETA``        accuracy of its inner run
rho        ``rho``         price of a call of h over that of a gradient of g
=========  ==============  ==================================================================

The proven step is one of SAE with one inner run: v almost minimises
<grad h(x), v> + g(v) + alpha/2 |v - x|^2 and passes the Monteiro-Svaiter test
|grad f(v) + L (v - x)| <= L |v - x| as soon as L >= sharp L_h. Theorem and proof are in
docs/theory.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from geartrain.methods.quasi_newton.certificate import CutCertificate
from geartrain.methods.quasi_newton.records import replace
from geartrain.oracles.protocols import Vector

ZETA = 0.1
FREE = 20  # K_0
_GROW = 1.5  # of L after a failed test, at least
# At most, by what was seen outside the level set of x_0: an exponential has any curvature there.
_JUMP = 1000.0
# Inner runs of proven steps may take this part of what the calls of h have cost; and so many
# gradients of g are set aside for the first one.
_SHARE, _RUN = 0.25, 300
_SLACK = 1e-6  # relative, of the growth of A that a passed test proves: rounding


@dataclass(frozen=True)
class Guard:
    """What the guard knows."""

    convex: bool  # h itself
    least: float  # used for L_seen while nothing larger is seen
    calls: int = 1  # N
    credit: int = FREE  # K
    L_seen: float = 0.0
    L: float = 0.0
    steps: int = 0  # proven steps that passed
    failures: int = 0
    paid: int = 0  # gradients of g in inner runs of proven steps
    run: int = _RUN  # those of the next one, by the last one

    @property
    def sharp(self) -> float:
        """The test passes surely for L >= sharp L_h."""
        return 1.0 / (2.0 * (1.0 - ZETA)) if self.convex else 1.0 / (1.0 - ZETA)

    @property
    def weight(self) -> float:
        """alpha/L."""
        return 2.0 - ZETA if self.convex else 1.0

    @property
    def slope(self) -> float:
        """Of sqrt(A L_h) per call of h: half of that of the proven method with unknown L."""
        return 1.0 / (8.0 * math.sqrt(_GROW * self.sharp))

    def is_behind(self, A: float) -> bool:
        """Whether a proven step is due."""
        over = self.calls - self.credit
        return over > 0 and A * max(self.L_seen, self.least) < (self.slope * over) ** 2

    def affords(self, rho: float) -> bool:
        """Whether the inner run of a proven step is in proportion to the calls of h so far."""
        return self.paid + self.run <= _SHARE * rho * self.calls

    def ran(self, calls: int) -> Guard:
        """After an inner run with so many gradients of g."""
        return replace(self, paid=self.paid + calls, run=calls)

    def called(self, calls: int, secant: float = 0.0) -> Guard:
        """After calls of h, with |change of grad h|/|step| of a step inside the level set."""
        return replace(self, calls=self.calls + calls, L_seen=max(self.L_seen, secant))

    def lost(self) -> Guard:
        """After a proven step that left the domain of a term, where nothing is proven.

        The next one is due after twice as many calls of h: such steps cost few calls in all.
        """
        return replace(self, credit=2 * max(self.calls, self.credit), failures=self.failures + 1)

    def start(self, certificate: CutCertificate, y: Vector) -> tuple[float, float, Vector]:
        """L, a and x of the proven step."""
        A = certificate.A
        L = max(self.L, self.sharp * max(self.L_seen, self.least))
        a = 0.5 / L + math.hypot(0.5 / L, math.sqrt(A) / math.sqrt(L))
        x = (A * y + a * certificate.z) / (A + a)
        return L, a, x

    def ended(self, L: float, before: float, a: float, after: float, bent: float) -> Guard:
        """After a proven step from A = `before` to A = `after`; h is `bent` along it.

        With D the change of grad h along d = v - x, `bent` is |D|^2/<D, d> for a convex h and
        |D|/|d| otherwise. L_h is at least that, and the test fails for L < sharp `bent` alone.
        """
        if after >= before + (1.0 - _SLACK) * a:
            return replace(self, L=L, steps=self.steps + 1)
        seen = max(self.sharp * self.L_seen, min(self.sharp * bent, _JUMP * L))
        larger = max(_GROW * L, seen)
        return replace(self, L=larger, credit=self.credit + 2, failures=self.failures + 1)

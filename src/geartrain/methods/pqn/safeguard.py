r"""The safeguard: a step of a proven method whenever the certificate lags behind its rate.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
N          ``calls``       calls of h so far
K          ``credit``      calls that are free: K_0, and two for every proven step that failed;
                           more after one that left the domain of a term
L_seen     ``L_seen``      largest secant \|change of grad h\|/\|step\|, a lower bound of L_h
A          --              of `geartrain.methods.pqn.certificate`
slope      ``slope``       sqrt(A) >= slope (N - K)/sqrt(L_seen) is asked for
L          ``L``           of the proven step: L a^2 = A + a, x = (A y + a z)/(A + a)
zeta       ``_ZETA``       accuracy of its inner run
rho        ``rho``         price of a call of h over that of a gradient of g
=========  ==============  ==================================================================

The proven step is one of SAE with one inner run: v almost minimises
<grad h(x), v> + g(v) + psi(v) + alpha/2 |v - x|^2 and passes the Monteiro-Svaiter test
|u + L (v - x)| <= L |v - x|, u in df(v), as soon as L >= sharp L_h. L comes from secants of h
alone, so that the bound on N does not depend on g. Theorem and proof are in docs/theory/learned.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from geartrain.methods.pqn.certificate import CutCertificate
from geartrain.methods.pqn.records import replace
from geartrain.oracles.protocols import Vector

_ZETA = 0.1
_FREE = 20  # K_0
_GROW = 1.5  # of L after a failed test, at least
# Inner runs of proven steps may take this part of what the calls of h have cost; and so many
# gradients of g are set aside for the first one.
_SHARE, _RUN = 0.25, 300
_SLACK = 1e-6  # relative, of the growth of A that a passed test proves: rounding


@dataclass(frozen=True)
class Safeguard:
    """What the safeguard knows."""

    convex: bool  # h itself
    calls: int = 1  # N
    credit: int = _FREE  # K
    L_seen: float = 0.0
    L: float = 0.0
    steps: int = 0  # proven steps that passed
    failures: int = 0
    paid: int = 0  # gradients of g in inner runs of proven steps
    run: int = _RUN  # those of the next one, by the last one

    @property
    def sharp(self) -> float:
        """The test passes surely for L >= sharp L_h."""
        return 1.0 / (2.0 * (1.0 - _ZETA)) if self.convex else 1.0 / (1.0 - _ZETA)

    @property
    def weight(self) -> float:
        """alpha/L."""
        return 2.0 - _ZETA if self.convex else 1.0

    @property
    def accuracy(self) -> float:
        """|grad phi| over L |v - x| at the end of the inner run."""
        return _ZETA

    @property
    def slope(self) -> float:
        """Of sqrt(A L_h) per call of h: half of that of the proven method with unknown L."""
        return 1.0 / (8.0 * math.sqrt(_GROW * self.sharp))

    def is_due(self, A: float, rho: float) -> bool:
        """Whether a proven step is due, and its inner run in proportion to the calls of h."""
        over = self.calls - self.credit
        if over <= 0 or self.paid + self.run > _SHARE * rho * self.calls:
            return False
        return A * self.L_seen < (self.slope * over) ** 2

    def called(self, calls: int, secant: float = 0.0) -> Safeguard:
        """After calls of h, with a secant of h."""
        return replace(self, calls=self.calls + calls, L_seen=max(self.L_seen, secant))

    def ran(self, calls: int) -> Safeguard:
        """After an inner run with so many gradients of g."""
        return replace(self, paid=self.paid + calls, run=calls)

    def lost(self) -> Safeguard:
        """After a proven step that left the domain of a term, where nothing is proven.

        The next one is due after twice as many calls of h: such steps cost few calls in all.
        """
        return replace(self, credit=2 * max(self.calls, self.credit), failures=self.failures + 1)

    def start(self, certificate: CutCertificate, y: Vector) -> tuple[float, float, Vector]:
        """L, a and x of the proven step."""
        A = certificate.A
        L = max(self.L, self.sharp * self.L_seen)
        a = 0.5 / L + math.hypot(0.5 / L, math.sqrt(A) / math.sqrt(L))
        return L, a, (A * y + a * certificate.z) / (A + a)

    def ended(self, L: float, before: float, a: float, after: float) -> Safeguard:
        """After a proven step from A = `before` to A = `after`."""
        if after >= before + (1.0 - _SLACK) * a:
            return replace(self, L=L, steps=self.steps + 1)
        larger = max(_GROW * L, self.sharp * self.L_seen)
        return replace(self, L=larger, credit=self.credit + 2, failures=self.failures + 1)

"""The numbers that steer the learned method, each with its reason."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Chosen on development problems of `geartrain bench profile`; flat around these values.

    What a mechanism is worth is told beside its number: the change of the gradients of h, in the
    mean of held-out problems, where it is switched off.
    """

    # Pairs (s, y_h, y_g): 30 cost 1.5 percent, 20 cost 4. Long vectors keep `room` entries of s,
    # and more than three pairs per variable tell nothing new (two cost 0.4 percent). Where all of
    # them agree, three times as many: the kernel SVM to 1e-8 in 79 gradients of h instead of 146.
    memory: int = 60
    least_memory: int = 8
    room: float = 8e5
    # Pairs of g that inner runs share: without them 1.5 percent, and twice the gradients of g.
    inner_memory: int = 20
    inner_memory_long: int = 6  # from 20,000 variables on
    # The newest pairs with |<s_i, y_j> - <s_j, y_i>| below this part enter the model as one block;
    # one by one: 10 percent.
    agree: float = 0.05
    # A step of the block is left out where less than this part of it is new.
    new: float = 0.05
    # |grad phi| at the end of an inner run over |grad f|, for a convex h and another one.
    eta: float = 0.01
    eta_other: float = 0.033
    inner_limit: int = 300
    # The curvature of h at the end of a step is its mean along the step times this factor at most:
    # an exponential fit instead of a quadratic one, 4 percent.
    local: float = 4.0
    # Part of lam that is left after a flat step at least; lam over the error of the model where h
    # is not convex.
    lam_fall: float = 0.25
    lam_error: float = 0.3
    # Of the older errors in the score of a model.
    discount: float = 0.7
    # The longest part of a rejected step that the next model is fitted to; learning from rejected
    # steps is worth 5 percent.
    longest: float = 0.6
    # Prices: gradients of g that an inner run may always take; handicap of models that keep g,
    # per logarithm of their bill; ratio up to which there is the plain model alone; up to which a
    # model is judged by what its step achieved; |grad h|/|grad g| from which a run starts plain.
    budget: float = 10.0
    budget_psi: float = 20.0  # with psi; 10 cost 10 percent at a ratio of 10 on real shards
    handicap: float = 0.5
    handicap_low: float = 4.5
    alone: float = 1.5
    effect: float = 50.0
    start_plain: float = 14.0
    # Refreshed curvatures of g over sqrt(rho), where h is not convex: 27 percent on real shards.
    refreshes: float = 0.5
    # Rejected trial points in a row after which a run ends.
    trials: int = 40

    def pairs(self, n: int, agreeing: bool = False) -> int:
        """How many pairs are kept for vectors of length n, where all of them agree or not."""
        memory = 3 * self.memory if agreeing else self.memory
        return int(min(memory, max(self.room / n, self.least_memory), 3 * n))

    def inner_pairs(self, n: int) -> int:
        """How many pairs of g are kept."""
        return self.inner_memory if n <= 20_000 else self.inner_memory_long

    def starts_plain(self, rho: float, convex: bool, exact: bool, unlike: float) -> bool:
        """Whether the first step is that of L-BFGS: g is not cheap enough, or not like f.

        For a non-convex h that is so if |grad h|/|grad g| > (rho + 1)/(rho + 1 + start_plain).
        """
        if exact:
            return False
        if rho <= self.alone:
            return True
        return (
            not convex and math.isfinite(rho) and unlike > (rho + 1) / (rho + 1 + self.start_plain)
        )


DEFAULT = Tuning()

"""The curvature of g along old steps, measured where the method is now."""

from __future__ import annotations

import math

from geartrain.methods.quasi_newton.memory import Memory
from geartrain.methods.quasi_newton.state import SAEQNState
from geartrain.methods.quasi_newton.terms import CountedTerms
from geartrain.methods.quasi_newton.tuning import Candidate, LearnedTuning

# Without prices so many pairs are measured again.
_MOST = 60
# The curvature of g along a step may have changed by these factors since the step was made.
_FADED, _GROWN = 1e-6, 3.0
# Measurements in a row that show no change, after which older pairs are left as they are.
_CALM = 2


def refreshed(
    terms: CountedTerms,
    state: SAEQNState,
    candidate: Candidate,
    tuning: LearnedTuning,
    most: float = math.inf,
) -> tuple[Memory, int]:
    """The pairs as they would be at p, newest first, and the gradients of g, `most` at most.

    The curvature of h is taken to have changed as that of g has, which is so for a difference
    f - f_1 of means of one loss.
    """
    geometry, p, memory = terms.geometry, state.at, state.memory
    dot, norm = geometry.dot, geometry.norm
    length = 1e-4 * max(norm(p.v), 1.0)
    priced = math.isfinite(state.rho)
    enough = math.ceil(tuning.refreshes * math.sqrt(state.rho)) if priced else _MOST
    calls = calm = 0
    for i in range(len(memory) - 1, -1, -1):
        if calls >= min(enough, candidate[1] if priced else _MOST, most) or calm == _CALM:
            break
        pair = memory.pairs[i]
        now = (terms.g(p.v + length * pair.s)[1] - p.grad_g) / length
        calls += 1
        calm = calm + 1 if priced and norm(now - pair.y_g) <= tuning.calm * norm(now) else 0
        before = float(dot(pair.s, pair.y_g))
        ratio = min(max(float(dot(pair.s, now)) / before, _FADED), _GROWN) if before > 0.0 else 1.0
        memory = memory.with_curvature_of_g(i, now, ratio, geometry)
    return memory, calls

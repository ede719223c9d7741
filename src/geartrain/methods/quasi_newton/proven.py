r"""The proven step of SAE-QN: one step of SAE with unknown L, which the guard asks for.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
y          ``y``           the iterate
x          ``x``           (A y + a z)/(A + a) with L a^2 = A + a
v          ``at_v``        almost minimises <grad h(x), v> + g(v) + alpha/2 |v - x|^2
A          ``state.A``     of the certificate, which grows by a at least if L is large enough
=========  ==============  ==================================================================
"""

from __future__ import annotations

import math

from geartrain.methods.base import InnerMethod
from geartrain.methods.quasi_newton import learning
from geartrain.methods.quasi_newton.guard import ZETA
from geartrain.methods.quasi_newton.records import replace
from geartrain.methods.quasi_newton.state import SAEQNState
from geartrain.methods.quasi_newton.step import Step
from geartrain.methods.quasi_newton.terms import CountedTerms
from geartrain.methods.quasi_newton.trial import Proposer
from geartrain.methods.quasi_newton.tuning import LearnedTuning


def proven_step(
    terms: CountedTerms,
    state: SAEQNState,
    inner: InnerMethod | None,
    tuning: LearnedTuning,
    pairs: int,
) -> SAEQNState:
    """The state after two calls of h, at x and at v; at most `pairs` pairs are kept."""
    geometry, y = terms.geometry, state.at
    norm = geometry.norm
    L, a, x = state.guard.start(state.certificate, y.v)
    at_x = terms.both(x)
    proposer = Proposer(
        terms,
        at_x,
        math.inf,
        state.inner_pairs,
        state.factor,
        True,
        math.inf,
        inner,
        tuning,
    )
    run = proposer.near_prox(state.guard.weight * L, ZETA * L)
    at_v = terms.both(run.v, run.known_g)
    # Both points may be lower than y, and both give cuts.
    certificate, at, grown = state.certificate, y, 0.0
    for new in (at_v, at_x):
        step = Step.between(at, new, geometry)
        lower = new.f < at.f if terms.values else new is at_v
        if lower:
            certificate, at = certificate.lowered(step.drop, geometry), new
        above = 0.0 if lower else step.above
        certificate = certificate.with_cut(new.v, new.grad, above, geometry)
        grown = certificate.A if new is at_v else grown
    step = Step.between(at_x, at_v, geometry)
    memory = state.memory
    if learning.is_usable_for_h(state, step, norm) and not at_v.f > state.top:
        memory = memory.add(learning.pair_of(step), geometry, pairs)
    cuts = state.cuts.moved(at.v, geometry)
    for new in (at_x, at_v) if state.convex else ():
        cuts = cuts.add(new, tuning.cuts_beside(pairs), geometry)
    called = state.guard.ran(run.calls).called(2, learning.secant(state, step, norm))
    rounding = at.is_level(norm)
    return replace(
        state,
        at=at,
        memory=memory,
        cuts=cuts,
        inner_pairs=run.pairs,
        factor=run.factor,
        certificate=certificate,
        guard=called.ended(L, state.A, a, grown, step.bent(state.convex, norm)),
        trials=state.trials + 2,
        radius=max(state.radius, step.length, norm(at.v - y.v)),
        tries=0,
        collapses=state.collapses if at is y else 0,
        accepted=True,
        stalled=rounding,
        rounding=rounding,
    )

r"""Scales of the variables: known by the terms for nothing, or learned from the pairs.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
s, y       --              a step, and the change of the gradient of h + g along it
D          ``D``           diagonal: D_i^2 = sum y_i^2/sum s_i^2 over the newest pairs, smoothed
t          ``t``           powers of 2 near sqrt(D), the largest 1: the new variables are t x
=========  ==============  ==================================================================

The variables of a problem often have very different scales, as columns of data in different units
have. A model that takes lam I where the pairs tell nothing learns one direction
after the other; a diagonal has learned the scales of all n variables after a few pairs, because
each pair has n entries. Whether D is better than I is seen on steps that were made after D: there
t s and y/t form a smaller angle than s and y. The variables change, if that is so, after a few
iterations and after twice as many, since scales change along the way.

Products with powers of 2 are exact: a variable at its bound remains there.

Certificate and safeguard know the variables x alone, so that what they prove is independent of t.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from geartrain.geometry import EUCLIDEAN
from geartrain.methods.pqn.evaluation import Point, Step, TermEvaluator
from geartrain.methods.pqn.inner_quadratic import is_solvable
from geartrain.methods.pqn.memory import Memory
from geartrain.methods.pqn.models import Share
from geartrain.methods.pqn.noise_detection import ProgressMonitor
from geartrain.methods.pqn.state import PQNState
from geartrain.methods.separable import by_numbers
from geartrain.oracles.protocols import Vector
from geartrain.oracles.sum_oracle import leaves
from geartrain.problem import Sum

_TINY = 1e-300
# Scales are used where curvatures along coordinates differ by more than this factor, and beyond
# this one they count as alike.
_DIFFERENT, _SPREAD = 1e2, 1e12
# Weight of a pair over that of the next one; weight of what is known about all variables in the
# entry of one, over the mean weight of an entry.
_AGE, _PRIOR = 0.6, 0.05
# Iterations after which the variables may change; mean logarithm of the ratio of the cosines from
# which they do, and the weight of older ones. Text-like data in shards takes 0.71 times the calls
# of h, smooth problems 0.99 times; from 0.15 on, Laplacians take 1.04 times.
_WHEN, _USEFUL, _DISCOUNT = (4, 8, 16, 32, 64, 128), 0.25, 0.7
# Newest pairs that are looked at.
_NEWEST = 12


def diagonal_scale(problem: Sum) -> Vector | None:
    """t by the curvatures of h + g along coordinates; None where they are unknown, or alike."""
    if problem.geometry is not EUCLIDEAN or by_numbers(problem.psi, problem.n) is None:
        return None
    of_h, of_g = _curvatures(problem.h, problem.n), _curvatures(problem.g, problem.n)
    if of_h is None or of_g is None:
        return None
    if problem.psi is None and is_solvable(problem.g) and _relative(of_h) is None:
        return None  # the scales of a g that is minimised exactly do no harm
    D = _relative(of_h + of_g)
    return None if D is None else _root(D)


def _curvatures(oracle: Any, n: int) -> Vector | None:
    """L_coord of a term, or of the sum of several.

    Where the rows of data are known, in the mean of those rows in which the variable is not zero: a
    variable that is rare bends the loss little, but there is little to gain along it, too.
    """
    terms = [leaf.term for leaf in leaves(oracle)]
    found = [getattr(term, "L_occurring", None) for term in terms]
    found = [
        getattr(term, "L_coord", None) if L is None else L
        for term, L in zip(terms, found, strict=True)
    ]
    if any(L is None for L in found):
        return None
    return sum((np.asarray(L, dtype=np.float64) for L in found), np.zeros(n))


def _relative(D: Vector) -> Vector | None:
    """D over its largest entry; None where they are alike."""
    top = float(D.max(initial=0.0))
    if not 0.0 < top < np.inf or not (D >= 0.0).all():
        return None
    D = np.maximum(D / top, 1.0 / _SPREAD)
    return None if float(D.min()) * _DIFFERENT > 1.0 else D


def _root(D: Vector) -> Vector:
    """The powers of 2 nearest to the roots, which are at most 1."""
    return np.asarray(np.exp2(np.round(0.5 * np.log2(D))))


def learned_scale(memory: Memory) -> Vector | None:
    """t by the pairs."""
    k = min(len(memory), _NEWEST)
    if k < 2:
        return None
    weights, rows = _AGE ** np.arange(k - 1.0, -1.0, -1.0), memory.rows[-3 * k :]
    with np.errstate(all="ignore"):
        steps, changes = weights @ rows[::3] ** 2, weights @ (rows[1::3] + rows[2::3]) ** 2
        prior = _PRIOR * float(steps.mean())
        typical = float(changes.sum() / steps.sum())
        D = np.sqrt((changes + prior * typical) / (steps + prior))
        D = np.maximum(D / D.max(), 1.0 / _SPREAD)
    return _root(D) if np.isfinite(D).all() else None


def learns(terms: TermEvaluator, state: PQNState) -> bool:
    """Whether the variables may change soon: psi is separable, and one of `_WHEN` is near."""
    early = any(when - _NEWEST <= state.k <= when for when in _WHEN)
    psi, n = terms.problem.psi, state.at.v.size
    return early and terms.geometry is EUCLIDEAN and by_numbers(psi, n) is not None


def gain(before: float, memory: Memory, step: Step) -> float:
    """The mean logarithm of the ratio of the cosines, after one more step."""
    t = learned_scale(memory)
    if t is None:
        return before
    y = step.y_h + step.y_g
    norm = np.linalg.norm
    plain, scaled = step.length * norm(y), norm(t * step.s) * norm(y / t)
    if not (min(plain, scaled) > 0.0 and math.isfinite(plain + scaled)):
        return before
    return float(_DISCOUNT * before + (1.0 - _DISCOUNT) * math.log(plain / scaled))


def pays(terms: TermEvaluator, state: PQNState) -> bool:
    """Whether the variables should change now."""
    return state.gain > _USEFUL and state.k in _WHEN and learns(terms, state)


def rescaled(state: PQNState) -> PQNState:
    """The same state in the variables t x."""
    t = learned_scale(state.memory)
    assert t is not None
    p, norm = state.at, np.linalg.norm
    at = Point(t * p.v, p.h, p.grad_h / t, p.g, p.grad_g / t, p.psi, p.r / t, p.unit)
    rows = state.memory.rows.copy()
    rows[::3] *= t
    rows[1::3] /= t
    rows[2::3] /= t
    rows /= np.repeat(np.maximum(norm(rows[::3], axis=1), _TINY), 3)[:, None]
    old, new = (norm(m[1::3] + m[2::3], axis=1) for m in (state.memory.rows, rows))
    factor = float(new[-1] / old[-1]) if old[-1] > 0.0 else 1.0
    return replace(
        state,
        at=at,
        scale=t if state.scale is None else t * state.scale,
        memory=Memory.of(rows, EUCLIDEAN),
        lam=factor * state.lam,
        flat=factor * state.flat,
        shift=factor * state.shift,
        share=Share(),
        steepest=float(new.max(initial=0.0)),
        inner_pairs=tuple((t * s, y / t) for s, y in state.inner_pairs),
        progress=ProgressMonitor(float(norm(at.r)), at.f, state.progress.first),
        gain=0.0,
    )

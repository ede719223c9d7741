"""The arithmetic of the learned method, against dense matrices and literal transcriptions.

Tolerances: a product of matrices of size up to 40 is right to 1e-14 times the sizes of the terms;
what is divided by a part `new` >= 1e-3 of a step, squared, loses six digits more.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from geartrain.geometry import EUCLIDEAN
from geartrain.methods.pqn import inner_smooth
from geartrain.methods.pqn.evaluation import Point, Step
from geartrain.methods.pqn.inner import Phi
from geartrain.methods.pqn.low_rank import LowRank, RowBasis
from geartrain.methods.pqn.memory import Memory
from geartrain.methods.pqn.method import ProximalQuasiNewton
from geartrain.methods.pqn.models import KEEP, PLAIN, SHRUNK, Models, kernels
from geartrain.methods.pqn.rows import add_to, dots, dots3, table
from geartrain.methods.pqn.secants import compact
from geartrain.methods.pqn.tuning import DEFAULT, Tuning
from geartrain.oracles.ledger import Ledger, Oracle
from geartrain.problem import Constant, Sum


class _Terms:
    """What inner runs use of the terms."""

    geometry = EUCLIDEAN
    dot, norm = staticmethod(EUCLIDEAN.dot), staticmethod(EUCLIDEAN.norm)


def _random(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def _spd(rng: np.random.Generator, n: int, low: float = 0.1, high: float = 10.0) -> np.ndarray:
    Q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    return (Q * np.geomspace(low, high, n)) @ Q.T


def _memory(S: np.ndarray, Y_h: np.ndarray, Y_g: np.ndarray, most: int = 60) -> Memory:
    """With these pairs, oldest first, added one by one."""
    memory = Memory.empty(S.shape[1])
    for s, y_h, y_g in zip(S, Y_h, Y_g, strict=True):
        size = np.linalg.norm(s)
        pair = (s / size, y_h / size, y_g / size)
        cross = memory.products(*pair, EUCLIDEAN)
        memory = memory.add(pair, cross, np.array(pair) @ np.array(pair).T, most)
    return memory


def _models(
    memory: Memory, lam: float = 0.7, convex: bool = True, tuning: Tuning = DEFAULT
) -> Models:
    return Models(memory, lam, 1.3, (0.6, 0.4), convex, EUCLIDEAN, tuning)


def _dense(B: LowRank, n: int) -> np.ndarray:
    return np.array([B(e) for e in np.eye(n)])


# Rows ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "n"), [(1, 7), (9, 40), (7, 3000), (23, 9001)])
def test_rows_times_vectors(k: int, n: int) -> None:
    """Short rows by BLAS and long ones by compiled loops, all of them or some in another order."""
    rng = _random(k)
    V, X = rng.standard_normal((k, n)), rng.standard_normal((4, n))
    some = rng.permutation(k)[: k // 2 + 1]
    tol = 1e-15 * n * 10.0
    np.testing.assert_allclose(dots(V, X[0], EUCLIDEAN), V @ X[0], atol=tol)
    np.testing.assert_allclose(dots(V, X[0], EUCLIDEAN, some), (V @ X[0])[some], atol=tol)
    np.testing.assert_allclose(dots3(V, *X[:3], EUCLIDEAN, some), (V @ X[:3].T)[some], atol=tol)
    np.testing.assert_allclose(table(X, V, EUCLIDEAN, some), (X @ V.T)[:, some], atol=tol)
    c = rng.standard_normal(len(some))
    np.testing.assert_allclose(add_to(X[3].copy(), V, c, some), X[3] + c @ V[some], atol=tol)


# Bases and low-rank matrices ----------------------------------------------------------------------


def test_basis_of_nearly_dependent_rows() -> None:
    """Rows that are the same up to rounding add nothing, and nothing overflows."""
    rng = _random(1)
    V = rng.standard_normal((6, 20))
    V = np.vstack([V, V[2] + 1e-15 * V[3], 1e8 * V[0], np.zeros(20)])
    basis = RowBasis.of(V, V @ V.T, np.arange(9))
    W = basis.C @ V
    assert np.linalg.norm(W, 2) <= 1.0 + 1e-3  # no direction counts twice
    np.testing.assert_allclose(W[:6] @ W[:6].T, np.eye(6), atol=1e-10)
    np.testing.assert_allclose(basis.X @ W, V, atol=1e-5 * 1e8)


@pytest.mark.parametrize("mu", [0.0, 0.3])
def test_low_rank_matrix_is_the_dense_one(mu: float) -> None:
    """Products, inverse, largest eigenvalue, raised eigenvalues and bends."""
    rng = _random(2)
    n, V = 25, rng.standard_normal((8, 25))
    basis = RowBasis.of(V, V @ V.T, rng.permutation(8))
    T = _spd(rng, 8) - 0.3 * np.eye(8)
    B = LowRank(0.5, basis, T)
    W = basis.C @ V[basis.order]
    dense = 0.5 * np.eye(n) + W.T @ T @ W
    v = rng.standard_normal(n)
    np.testing.assert_allclose(B(v, mu), dense @ v + mu * v, rtol=1e-10, atol=1e-10)
    expected = np.linalg.solve(dense + mu * np.eye(n), v)
    np.testing.assert_allclose(B.inverse(mu)(v), expected, rtol=1e-9, atol=1e-9)
    assert B.top == pytest.approx(np.linalg.eigvalsh(dense)[-1], rel=1e-9)
    w, E = np.linalg.eigh(T)
    raised = 0.5 * np.eye(n) + W.T @ (E * np.maximum(w, 0.0)) @ E.T @ W
    np.testing.assert_allclose(B.at_least(0.0)(v), raised @ v, rtol=1e-9, atol=1e-9)
    assert B.bend(basis.products(v, EUCLIDEAN), np.linalg.norm(v)) == pytest.approx(
        v @ dense @ v, rel=1e-9
    )


def test_inverse_of_an_indefinite_matrix() -> None:
    """Negative eigenvalues count as 0, plus mu."""
    rng = _random(3)
    V = rng.standard_normal((4, 10))
    basis = RowBasis.of(V, V @ V.T, np.arange(4))
    T = _spd(rng, 4, 1.0, 3.0) - 2.5 * np.eye(4)
    W = basis.C @ V
    w, E = np.linalg.eigh(np.eye(10) + W.T @ T @ W)
    v, mu = rng.standard_normal(10), 0.2
    expected = (E / (np.maximum(w, 0.0) + mu)) @ (E.T @ v)
    np.testing.assert_allclose(
        LowRank(1.0, basis, T).inverse(mu)(v), expected, rtol=1e-8, atol=1e-8
    )


# Updates ------------------------------------------------------------------------------------------


def _bfgs(B: np.ndarray, s: np.ndarray, y: np.ndarray) -> np.ndarray:
    """One update, literally."""
    Bs = B @ s
    return B + np.outer(y, y) / (s @ y) - np.outer(Bs, Bs) / (s @ Bs)


def _block_bfgs(B: np.ndarray, S: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """One block update with the symmetric part of S Y', literally."""
    A = 0.5 * (S @ Y.T + Y @ S.T)
    SB = S @ B
    return B + Y.T @ np.linalg.solve(A, Y) - SB.T @ np.linalg.solve(SB @ S.T, SB)


def _literal(S: np.ndarray, Y: np.ndarray, lam: float, block: int) -> np.ndarray:
    """Old pairs one by one, then the last `block` pairs at once."""
    B = lam * np.eye(S.shape[1])
    for s, y in zip(S[: len(S) - block], Y[: len(S) - block], strict=True):
        B = _bfgs(B, s, y)
    return _block_bfgs(B, S[-block:], Y[-block:]) if block else B


def _changing(
    rng: np.random.Generator, n: int, old: int, new: int
) -> tuple[np.ndarray, np.ndarray]:
    """Steps of length one, and changes: the curvature differs along `old` ones, `new` agree."""
    S = rng.standard_normal((old + new, n))
    S /= np.linalg.norm(S, axis=1)[:, None]
    H = _spd(rng, n)
    Y = np.array([_spd(rng, n) @ s for s in S[:old]] + [H @ s for s in S[old:]])
    return S, Y


@pytest.mark.parametrize(("old", "new"), [(0, 6), (5, 4), (6, 0), (1, 0)])
def test_models_are_literal_updates(old: int, new: int) -> None:
    """Of h from lam I, and of f from |y|^2/<s, y>; with their inverses."""
    n, rng = 18, _random(10 + old)
    S, Y = _changing(rng, n, old, new)
    Y_g = 0.2 * S + 0.0 * Y
    models = _models(_memory(S, Y, Y_g))
    v = rng.standard_normal(n)
    for name, y in ((KEEP, Y), (PLAIN, Y + Y_g)):
        lam = 0.7 if name == KEEP else float(y[-1] @ y[-1] / (S[-1] @ y[-1]))
        B = models[name]
        pairs, one_by_one = B.update[:2]
        block = len(pairs) - len(one_by_one)
        assert len(pairs) == len(S) and block >= new  # old pairs agree by chance at most
        expected = _literal(S, y, lam, block)
        size = np.linalg.norm(expected, 2)
        cond = size * np.linalg.norm(np.linalg.inv(expected), 2)
        np.testing.assert_allclose(_dense(B, n), expected, atol=1e-9 * size)
        for mu in (0.0, 0.5):
            inverse = np.linalg.inv(expected + mu * np.eye(n))
            atol = 1e-9 * cond * np.linalg.norm(inverse, 2)
            np.testing.assert_allclose(B.inverse(mu)(v), inverse @ v, atol=atol)


def test_pairs_that_nearly_agree_are_one_block() -> None:
    """The inverse is that of the update with the symmetric part, not with S Y' itself."""
    n, rng = 15, _random(20)
    S, Y = _changing(rng, n, 0, 5)
    skew = rng.standard_normal((n, n))
    Y = Y + 1e-3 * S @ (skew - skew.T)
    cross = S @ Y.T
    assert np.abs(cross - cross.T).max() > 1e-6
    B = _models(_memory(S, Y, np.zeros_like(Y)))[PLAIN]
    assert len(B.update[0]) == 5 and not len(B.update[1])
    expected = _block_bfgs(B.lam * np.eye(n), S, Y)
    v = rng.standard_normal(n)
    np.testing.assert_allclose(_dense(B, n), expected, atol=1e-8)
    np.testing.assert_allclose(expected @ B.inverse(0.0)(v), v, atol=1e-7)


def test_more_pairs_than_dimensions() -> None:
    """Dependent steps are left out of the block, and the model stays finite and definite."""
    n, rng = 4, _random(31)
    H = _spd(rng, n)
    S = rng.standard_normal((12, n))
    for name in (KEEP, PLAIN):
        B = _models(_memory(S, S @ H, np.zeros_like(S)))[name]
        # a step may be left out where less than 1e-3 of it is new
        np.testing.assert_allclose(_dense(B, n), H, atol=1e-4)
        np.testing.assert_allclose(
            B.inverse(0.3)(S[0]), np.linalg.solve(H + 0.3 * np.eye(n), S[0]), atol=1e-3
        )


def test_compact_is_one_update_after_the_other() -> None:
    """Pairs along which the gradient falls are left out."""
    n, rng = 12, _random(32)
    S, Y = _changing(rng, n, 6, 0)
    Y[2] = -Y[2]
    T = compact(S, Y, S @ Y.T, 0.4 * S)
    good = [0, 1, 3, 4, 5]
    np.testing.assert_allclose(0.4 * np.eye(n) + T, _literal(S[good], Y[good], 0.4, 0), atol=1e-10)


@pytest.mark.parametrize("at_once", [False, True])
def test_models_of_an_h_that_is_not_convex(at_once: bool) -> None:
    """What the update of a H_g + b I to the curvature of f adds to a H_g."""
    n, rng = 10, _random(33)
    S, Y_h = _changing(rng, n, 4, 0)
    H_g = _spd(rng, n, 0.5, 2.0)
    if at_once:
        Y_h = S @ (_spd(rng, n, 0.5, 2.0) - 0.6 * np.eye(n))
    tuning = replace(DEFAULT, agree=0.05 if at_once else -1.0)
    models = _models(_memory(S, Y_h, S @ H_g), convex=False, tuning=tuning)
    Y = Y_h + S @ H_g
    for name, a, lam in ((KEEP, 1.0, 0.7), (SHRUNK, 0.6, 0.4)):
        B = a * H_g + lam * np.eye(n)
        assert (np.einsum("ij,ij->i", S, Y) > np.einsum("ij,ij->i", S, S @ H_g) / 64.0).all()
        if at_once:
            B = _block_bfgs(B, S, Y)
        else:
            for s, y in zip(S, Y, strict=True):
                B = _bfgs(B, s, y)
        np.testing.assert_allclose(_dense(models[name], n), B - a * H_g, atol=1e-8)


def test_curvature_below_the_floor_is_raised() -> None:
    """<s, y_f> of a model that starts from H_g is at least <s, y_g>/64, pair by pair or not."""
    n, rng = 6, _random(34)
    S, H_g = np.linalg.qr(rng.standard_normal((n, n)))[0][:3], np.eye(n)
    for agree in (-1.0, 0.05):
        tuning = replace(DEFAULT, agree=agree)
        Y = np.array([2.0, 1e-3, 1.0])[:, None] * S  # of f: the second one is too flat
        B = _models(_memory(S, Y - S @ H_g, S @ H_g), convex=False, tuning=tuning)[KEEP]
        found = [float(s @ (B(s) + s)) for s in S]
        np.testing.assert_allclose(found, [2.0, 1.0 / 64.0, 1.0], rtol=1e-9)


def _block(S_S: np.ndarray, cross: np.ndarray, new: float = 0.05) -> list[int]:
    """The pairs of the block."""
    k = len(cross)
    gram = np.zeros((3 * k, 3 * k))
    gram[:k, :k], gram[:k, k : 2 * k] = S_S, cross
    gram[range(k, 2 * k), range(k, 2 * k)] = 1.0
    return kernels().block(gram, False, 0.0, 0.05, new)[3].tolist()


def test_block_is_chosen_from_the_newest_pair_on() -> None:
    """A pair that contradicts a newer one ends the block, whatever older ones do."""
    cross = np.eye(5)
    cross[1, 3] = 0.2
    assert _block(np.eye(5), cross) == [2, 3, 4]
    cross[1, 3], cross[4, 0] = 0.0, 0.2
    assert _block(np.eye(5), cross) == [1, 2, 3, 4]
    cross[4, 4] = -1.0
    assert _block(np.eye(5), cross) == []


def test_block_prefers_newer_steps() -> None:
    """Of two steps that are nearly the same, the older one is left out."""
    S = np.eye(4)[[0, 1, 0, 2]] + 1e-3 * np.eye(4)[[3, 3, 2, 1]]
    S /= np.linalg.norm(S, axis=1)[:, None]
    cross = S @ S.T  # of |x|^2/2: the pairs agree up to rounding
    assert _block(cross, cross) == [1, 2, 3]
    assert _block(cross, cross, new=1e-6) == [0, 1, 2, 3]


@pytest.mark.parametrize("name", [KEEP, PLAIN])
def test_errors_of_models(name: str) -> None:
    """|y - B s| by inner products, also where it is a small part of y."""
    n, rng = 14, _random(40)
    S, Y = _changing(rng, n, 0, 5)
    Y_g = 0.3 * S
    models = _models(memory := _memory(S, Y, Y_g))
    part = models.part(name)
    for s in (rng.standard_normal(n), S[-1] + 1e-7 * rng.standard_normal(n)):
        y_h = 2.0 * s if s @ S[-1] < 0.9 else Y[-1]
        y_g = 0.3 * s
        vectors = np.array([s, y_h, y_g])
        p = Point(np.zeros(n), 0.0, np.zeros(n), 0.0, np.zeros(n), 0.0, np.zeros(n))
        step = Step(
            p, p, s, float(np.linalg.norm(s)), y_h, y_g, vectors @ vectors.T, None, None, 0.0
        )  # type: ignore[arg-type]
        B = models[name]
        exact = np.linalg.norm(y_h + (1.0 - part) * y_g - _dense(B, n) @ s)
        found = models.error(B, part, step, memory.products(s, y_h, y_g, EUCLIDEAN))
        assert found == pytest.approx(exact, rel=1e-3)


# The memory ---------------------------------------------------------------------------------------


def _pair(rng: np.random.Generator, memory: Memory) -> tuple[tuple, np.ndarray, np.ndarray]:
    rows = rng.standard_normal((3, memory.rows.shape[1]))
    return tuple(rows), memory.products(*rows, EUCLIDEAN), rows @ rows.T


def _gram(memory: Memory) -> np.ndarray:
    k = len(memory)
    return memory.gram.transpose(2, 0, 3, 1).reshape(3 * k, 3 * k)


@pytest.mark.parametrize("most", [1, 3, 8])
def test_memory_is_a_window_of_the_newest_pairs(most: int) -> None:
    """Rows and inner products, over several blocks; no memory changes when later ones are made."""
    rng, memory = _random(50), Memory.empty(6)
    seen: list[np.ndarray] = []
    states = []
    for _ in range(4 * most + 5):
        pair, cross, own = _pair(rng, memory)
        memory = memory.add(pair, cross, own, most)
        seen.append(np.array(pair))
        states.append((memory, memory.rows.copy(), memory.gram.copy()))
        assert len(memory) == min(len(seen), most)
        np.testing.assert_array_equal(memory.rows, np.vstack(seen[-most:]))
        np.testing.assert_allclose(_gram(memory), memory.rows @ memory.rows.T, atol=1e-13)
    for state, rows, gram in states:
        np.testing.assert_array_equal(state.rows, rows)
        np.testing.assert_array_equal(state.gram, gram)


def test_two_memories_from_one() -> None:
    """Both have their own last pair, and equal pairs give equal memories."""
    rng = _random(51)
    first = Memory.empty(5).add(*_pair(rng, Memory.empty(5)), 4)
    one, two = _pair(rng, first), _pair(rng, first)
    a, b, again = (first.add(*pair, 4) for pair in (one, two, one))
    np.testing.assert_array_equal(a.rows[-3:], np.array(one[0]))
    np.testing.assert_array_equal(b.rows[-3:], np.array(two[0]))
    np.testing.assert_array_equal(again.rows, a.rows)
    np.testing.assert_array_equal(again.gram, a.gram)


def test_changed_pairs() -> None:
    """Other y_g and scaled y_h in the newest pairs, and shifts of all y_g; the old memory stays."""
    rng = _random(52)
    memory = _memory(*rng.standard_normal((3, 4, 7)))
    rows, y_g = memory.rows.copy(), rng.standard_normal((2, 7))
    changed = memory.with_changes([(y_g[1], 0.5), (y_g[0], 3.0)], EUCLIDEAN)
    expected = rows.copy()
    expected[[7, 10]] *= [[3.0], [0.5]]
    expected[[8, 11]] = y_g
    shifts = list(rng.standard_normal((4, 7)))
    shifted = memory.with_pairs_shifted(shifts, EUCLIDEAN)
    np.testing.assert_array_equal(changed.rows, expected)
    np.testing.assert_allclose(shifted.rows[2::3], rows[2::3] + np.array(shifts), atol=1e-15)
    np.testing.assert_array_equal(memory.rows, rows)
    for m in (memory, changed, shifted):
        np.testing.assert_allclose(_gram(m), m.rows @ m.rows.T, atol=1e-13)


# The inner run ------------------------------------------------------------------------------------


def _two_loops(S: list, Y: list, base: Any, grad: np.ndarray) -> np.ndarray:
    """-H grad, literally."""
    q, a = grad.copy(), []
    for s, y in zip(S[::-1], Y[::-1], strict=True):
        a.append((s @ q) / (s @ y))
        q = q - a[-1] * y
    r = base(q)
    for s, y, t in zip(S, Y, a[::-1], strict=True):
        r = r + (t - (y @ r) / (s @ y)) * s
    return -r


@pytest.mark.parametrize(
    ("n", "part", "learned"), [(12, 0.6, True), (12, 1.0, False), (3000, 1.0, True)]
)
def test_inner_directions_are_those_of_the_two_loops(n: int, part: float, learned: bool) -> None:
    """At the start and after pairs were added, so many that the oldest are forgotten."""
    rng = _random(60)
    S, Y = rng.standard_normal((2, 5, n))
    Y = S + 0.1 * Y
    if learned:
        B: LowRank = _models(_memory(S, Y, 0.1 * S))[KEEP]
    else:
        B = LowRank(0.7)
    curvature, mu = rng.uniform(0.5, 2.0, n), 0.1
    zero = np.zeros(n)
    phi = Phi(_Terms(), Point(zero, 0.0, zero, 0.0, zero, 0.0, zero), B, mu, part)  # type: ignore[arg-type]
    steps = list(rng.standard_normal((7, n)))
    pairs = [(s, curvature * s) for s in steps]
    flat = (steps[1], -100.0 * steps[1])  # phi bends down along it: it is left out
    run = inner_smooth.InnerCurvature(phi, (pairs[0], flat, pairs[1], pairs[2]), 4)
    assert [s[0] for s, _ in run.kept] == [steps[i][0] for i in (0, 1, 2)]
    for known in range(3, 8):
        used = pairs[max(0, known - 4) : known]
        changes = [B(s, mu) + part * y_g for s, y_g in used]
        tau = part * float(used[-1][0] @ used[-1][1]) / float(used[-1][0] @ used[-1][0])
        u, eps = rng.standard_normal(n), rng.standard_normal(len(run.gram))
        grad = u.copy() if B.basis is None else B.basis.add_to(u.copy(), eps)
        to = run.direction(u, run.products(u), run.D @ u, eps)
        assert run._made == pytest.approx(tau, rel=1.0)
        # H_0 is made again only where tau has doubled or halved
        base = B.inverse(mu + run._made)
        expected = _two_loops([s for s, _ in used], changes, base, grad)
        size = np.abs(expected).max()
        np.testing.assert_allclose(to.d, expected, rtol=0.0, atol=1e-9 * size)
        np.testing.assert_allclose(to.z, run.products(to.d), rtol=0.0, atol=1e-8 * n * size)
        Bd = B(to.d, mu)
        np.testing.assert_allclose(to.z_B, run.products(Bd), rtol=0.0, atol=1e-8 * n * size)
        if B.basis is not None:
            by_weights = B.basis.add_to((B.lam + mu) * to.d, to.e)
            np.testing.assert_allclose(by_weights, Bd, rtol=0.0, atol=1e-8 * size)
        if known < 7:
            s, y_g = pairs[known]
            z = 2.0 * run.products(s)
            e = B.weights(z) if learned else z
            whole = inner_smooth.Direction(2.0 * s, z, run.products(B(2.0 * s, mu)), e)
            to_D = run.add(whole, 0.5, s, y_g, run.products(y_g), u)
            np.testing.assert_allclose(to_D, run.D @ u, atol=1e-14 * n)
            assert len(run) == 4
    run.clear()
    assert not run.kept
    u, eps = rng.standard_normal(n), np.zeros(len(run.gram))
    to = run.direction(u, run.products(u), run.D @ u, eps)
    np.testing.assert_allclose(to.d, -run.base(u), atol=1e-9)


# Steps --------------------------------------------------------------------------------------------


class _Rounded:
    """sum_i c_i sqrt(1 + (A x - b)_i^2)."""

    convex = True

    def __init__(self, A: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
        self.A, self.b, self.c, self.n = A, b, c, A.shape[1]

    def value_and_grad(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        u = self.A @ x - self.b
        size = np.sqrt(1.0 + u * u)
        return float(self.c @ size), self.A.T @ (self.c * u / size)

    def grad(self, x: np.ndarray) -> np.ndarray:
        return self.value_and_grad(x)[1]

    def value(self, x: np.ndarray) -> float:
        return self.value_and_grad(x)[0]


@pytest.mark.parametrize(("n", "rho"), [(30, 1.0), (30, math.inf), (500, 10.0)])
def test_a_step_does_not_change_its_state(n: int, rho: float) -> None:
    """Twice from one state, at once and when later states exist: the same bits."""
    rng, ledger = _random(70), Ledger()
    h = _Rounded(rng.standard_normal((n, n)), rng.standard_normal(n), np.geomspace(0.1, 10.0, n))
    g = _Rounded(np.eye(n), rng.standard_normal(n), np.geomspace(1e-2, 1.0, n))
    unknown = Constant(None, "unknown")
    terms = Oracle(h, "h", ledger, n), Oracle(g, "g", ledger, n)
    problem = Sum(*terms, unknown, unknown, Constant(0.0, "given"))
    method = ProximalQuasiNewton(rho=rho, memory=8)
    states = [method.init(problem, np.zeros(n))]
    for _ in range(14):  # far from rounding: |grad f| has fallen by a few digits at most
        states.append(method.step(problem, states[-1]))
    for before, after in itertools.pairwise(states):
        again = method.step(problem, before)
        np.testing.assert_array_equal(again.at.v, after.at.v)
        np.testing.assert_array_equal(again.memory.rows, after.memory.rows)
        np.testing.assert_array_equal(again.memory.gram, after.memory.gram)
        assert again.lam == after.lam and again.selection == after.selection


@pytest.mark.parametrize("name", [KEEP, SHRUNK, PLAIN])
@pytest.mark.parametrize("convex", [True, False])
def test_factors_are_those_of_the_weights(name, convex):
    """V'(P'P - N'N)V is what the update adds, also with a floor and a part of g in the base."""
    rng = np.random.default_rng(3)
    H, G = (A @ A.T for A in rng.standard_normal((2, 9, 9)))
    memory = Memory.empty(9)
    for _ in range(6):
        s = rng.standard_normal(9)
        s /= np.linalg.norm(s)
        noise = 0.3 * rng.standard_normal(9)
        pair = (s, H @ s - (0.0 if convex else 8.0) * s + noise, G @ s)
        products = memory.products(*pair, EUCLIDEAN)
        own = np.array([[a @ b for b in pair] for a in pair])
        memory = memory.add(pair, products, own, 60)
    B = Models(memory, 0.5, 2.0, (0.4, 0.7), convex, EUCLIDEAN, DEFAULT)[name]
    P, N = B.factors
    z = rng.standard_normal(P.shape[1])
    np.testing.assert_allclose(P.T @ (P @ z) - N.T @ (N @ z), B.weights(z), rtol=1e-8, atol=1e-8)

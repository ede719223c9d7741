"""The families without a non-smooth term."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

import geartrain as gt
from geartrain_lab.seconds.problem import (
    Array,
    Evaluation,
    Problem,
    correlated,
    differences,
    draws,
    family,
    gaussian_kernel,
    labels,
    multinomial,
    picture,
    projections,
    ridge,
    roughness,
    sized,
    splines,
)


@family
def PDE_source(seed: int, size: float) -> Problem:
    """The source of a diffusion from sensors: a solve with a sparse factor, and its adjoint."""
    rng, side = draws(seed), sized(44, size)
    solve = splu(
        sparse.csc_array((roughness(side, 1.0).Q) + 0.01 * sparse.eye_array(side**2))
    ).solve
    seen = np.sort(rng.choice(side**2, side**2 // 6, replace=False))
    truth = solve(picture(rng, side).ravel())[seen]
    data = truth + 0.02 * truth.std() * rng.standard_normal(seen.size)

    def value_and_grad(x: Array) -> Evaluation:
        r = solve(x)[seen] - data
        back = np.zeros(side**2)
        back[seen] = r
        return 0.5 * float(r @ r), solve(back)

    return Problem(gt.Term(value_and_grad, n=side**2), roughness(side, 0.1))


@family
def tomography(seed: int, size: float) -> Problem:
    """Least squares on a parallel-beam scan."""
    rng, side = draws(seed), sized(48, size)
    A = projections(side, sized(40, size))
    data = A @ picture(rng, side).ravel() + 0.01 * rng.standard_normal(A.shape[0])
    return Problem(gt.LinearModel(A, data, "squared"), roughness(side, 1e-4))


@family
def deblurring(seed: int, size: float) -> Problem:
    """A picture from its blurred one by Fourier transforms, with the smoothed total variation."""
    rng, side = draws(seed), sized(80, size)
    near = np.minimum(np.arange(side), side - np.arange(side))
    bell = np.exp(-0.5 * (near / 1.5) ** 2)
    transfer = np.fft.rfft2(np.outer(bell, bell) / bell.sum() ** 2)

    def blurred(x: Array) -> Array:
        return np.fft.irfft2(transfer * np.fft.rfft2(x.reshape(side, side)), (side, side)).ravel()

    data = blurred(picture(rng, side)) + 0.01 * rng.standard_normal(side**2)

    def fit(x: Array) -> Evaluation:
        r = blurred(x) - data
        return 0.5 * float(r @ r), blurred(r)

    def variation(x: Array) -> Evaluation:
        X = x.reshape(side, side)
        u, v = np.diff(X, axis=0, append=X[-1:]), np.diff(X, axis=1, append=X[:, -1:])
        length = np.sqrt(u * u + v * v + 1e-4)
        u, v = u / length, v / length
        grad = -u - v
        grad[1:] += u[:-1]
        grad[:, 1:] += v[:, :-1]
        return 0.01 * float(length.sum()), 0.01 * grad.ravel()

    return Problem(gt.Term(fit, n=side**2), gt.Term(variation, n=side**2), start=data)


@family
def Cox(seed: int, size: float) -> Problem:
    """The partial likelihood of survival times."""
    rng, m, n = draws(seed), sized(4000, size), sized(150, size)
    A = correlated(rng, m, n, 0.9)
    hazard = A @ rng.standard_normal(n) / np.sqrt(n)
    times, ends = rng.exponential(np.exp(-hazard)), rng.exponential(2.0, m)
    order = np.argsort(
        -np.minimum(times, ends)
    )  # the first i + 1 rows are at risk at the i-th time
    A, event = A[order], (times <= ends)[order].astype(float)

    def value_and_grad(x: Array) -> Evaluation:
        eta = A @ x
        top = eta.max()
        e = np.exp(eta - top)
        at_risk = np.cumsum(e)
        value = float(event @ (np.log(at_risk) + top - eta)) / m
        slopes = e * np.cumsum((event / at_risk)[::-1])[::-1] - event
        return value, A.T @ slopes / m

    return Problem(gt.Term(value_and_grad, n=n), ridge(n, 0.001))


@family
def Poisson_splines(seed: int, size: float) -> Problem:
    """Counts with a smooth rate: B-splines and the penalty of third differences."""
    rng, m, n = draws(seed), sized(20000, size), sized(200, size, 12)
    at = rng.random(m)
    B = splines(at, n)
    counts = rng.poisson(np.exp(1.0 + np.sin(9.0 * at) + 0.5 * np.cos(31.0 * at))).astype(float)
    BT = sparse.csr_array(B.T)

    def value_and_grad(x: Array) -> Evaluation:
        eta = B @ x
        rate = np.exp(np.minimum(eta, 30.0))  # goes on as a line beyond e^30
        value = float((rate * (1.0 + np.maximum(eta - 30.0, 0.0)) - counts * eta).mean())
        return value, BT @ (rate - counts) / m

    D = differences(n, 3)
    g = gt.Quadratic(sparse.csr_array(0.1 * (D.T @ D) + 1e-6 * sparse.eye_array(n)))
    return Problem(gt.Term(value_and_grad, n=n), g)


@family
def Bradley_Terry(seed: int, size: float) -> Problem:
    """Strengths of players from the outcomes of their games."""
    rng, games, n = draws(seed), sized(20000, size), sized(1000, size)
    strength, order = np.linspace(-1.5, 1.5, n), np.arange(games)
    first = rng.integers(0, n, games)
    second = np.clip(first + rng.integers(1, max(3, n // 20), games), None, n - 1)
    second = np.where(second == first, 0, second)  # games are among players of like strength
    won = rng.random(games) < 1.0 / (1.0 + np.exp(strength[second] - strength[first]))
    entries = np.concatenate([np.ones(games), -np.ones(games)])
    where = (np.tile(order, 2), np.concatenate([first, second]))
    A, y, l2 = sparse.csr_array((entries, where), shape=(games, n)), np.where(won, 1.0, -1.0), 1e-6
    known = {"kind": "logistic", "A": A, "y": y, "l2": l2}
    return Problem(gt.LinearModel(A, y), ridge(n, l2), None, known)


@family
def quantile(seed: int, size: float) -> Problem:
    """The 90 % quantile, smoothed, of a series with a smooth trend and covariates."""
    rng, m, n = draws(seed), sized(5000, size), sized(100, size, 12)
    at = rng.random(m)
    A = np.hstack([splines(at, n).toarray(), correlated(rng, m, n, 0.5)])
    y = (
        np.sin(6.0 * at)
        + A[:, n:] @ rng.standard_normal(n) / np.sqrt(n)
        + rng.standard_normal(m) * (0.2 + at)
    )
    width = 0.05

    def value_and_grad(x: Array) -> Evaluation:
        r = y - A @ x
        value = 0.9 * r + width * np.logaddexp(0.0, -r / width)
        slopes = 0.9 - 0.5 * (1.0 - np.tanh(0.5 * r / width))
        return float(value.mean()), -(A.T @ slopes) / m

    D = differences(n, 2)
    Q = sparse.block_diag([1.0 * D.T @ D + 1e-6 * sparse.eye_array(n), 1e-3 * sparse.eye_array(n)])
    return Problem(gt.Term(value_and_grad, n=2 * n), gt.Quadratic(sparse.csr_array(Q)))


@family
def multinomial_logistic(seed: int, size: float) -> Problem:
    """Ten classes."""
    rng, m, d, count, l2 = draws(seed), sized(3000, size), sized(80, size), 10, 1e-4
    A = correlated(rng, m, d, 0.8) * np.geomspace(1.0, 0.1, d)
    scores = A @ rng.standard_normal((d, count)) + rng.gumbel(size=(m, count))
    classes = scores.argmax(axis=1)
    known = {"kind": "multinomial", "A": A, "y": classes, "l2": l2, "count": count}
    n = d * count
    return Problem(multinomial(A, classes, count), ridge(n, l2), None, known)


@family
def kriging(seed: int, size: float) -> Problem:
    """A field from scattered measurements by an exponential covariance."""
    rng, n = draws(seed), sized(500, size)
    P = rng.random((n, 2))
    far = np.sqrt(((P[:, None] - P[None]) ** 2).sum(axis=2)) / 0.1
    K = (1.0 + far) * np.exp(-far)
    y = np.sin(5.0 * P[:, 0]) * np.cos(7.0 * P[:, 1]) + 0.1 * rng.standard_normal(n)
    h, g = gt.LinearModel(K, y, "squared"), gt.Quadratic(K * (0.3 / n))
    known = {"solution": np.linalg.solve(K + 0.3 * np.eye(n), y)}
    return Problem(h, g, None, known)


@family
def kernel_squared_hinge(seed: int, size: float) -> Problem:
    """A kernel machine with the squared hinge."""
    K, y, _ = gaussian_kernel(draws(seed), sized(600, size), 0.5)
    n, lam = y.size, 1e-4
    h, g = gt.LinearModel(K, y, "squared_hinge"), gt.Quadratic(K * lam)
    x, inside = np.zeros(n), np.ones(n, bool)
    for _ in range(50):  # Newton's method; the rows with a loss settle
        x[:] = 0.0
        x[inside] = np.linalg.solve(
            K[np.ix_(inside, inside)] + 0.5 * lam * n * np.eye(inside.sum()), y[inside]
        )
        inside = y * (K @ x) < 1.0
    return Problem(h, g, None, {"solution": x})


@family
def kernel_smoothed_hinge(seed: int, size: float) -> Problem:
    """A kernel machine with the smoothed hinge."""
    K, y, _ = gaussian_kernel(draws(seed), sized(800, size), 0.5)
    h, g = gt.LinearModel(K, y, "smoothed_hinge", mu=0.1), gt.Quadratic(K * 1e-3)
    return Problem(h, g)


def semi_dual(rng: np.random.Generator, m: int, n: int, epsilon: float) -> gt.Term:
    """The semi-dual of entropic transport of m points to n points of the unit square."""
    P, Q = rng.random((m, 2)), rng.random((n, 2)) ** 2
    cost = ((P[:, None] - Q[None]) ** 2).sum(axis=2)
    a, b = np.full(m, 1.0 / m), rng.dirichlet(np.full(n, 5.0))
    fixed = np.log(b) - cost / epsilon

    def value_and_grad(v: Array) -> Evaluation:
        scores = fixed + v / epsilon
        top = scores.max(axis=1, keepdims=True)
        E = np.exp(scores - top)
        total = E.sum(axis=1)
        value = epsilon * float(a @ (np.log(total) + top[:, 0])) - float(b @ v)
        return value, (a / total) @ E - b

    return gt.Term(value_and_grad, n=n)


@family
def optimal_transport(seed: int, size: float) -> Problem:
    """The semi-dual of entropic transport."""
    n = sized(300, size)
    h = semi_dual(draws(seed), sized(400, size), n, 0.02)
    return Problem(h, ridge(n, 1e-6))


@family
def badly_scaled_logistic(seed: int, size: float) -> Problem:
    """Logistic regression on columns of scales from 0.01 to 1000."""
    rng, m, n, l2 = draws(seed), sized(3000, size), sized(150, size), 1e-4
    A = correlated(rng, m, n, 0.8)
    y = labels(A @ rng.standard_normal(n), rng, 1.0)
    A *= rng.permutation(np.geomspace(1e-2, 1e3, n))
    known = {"kind": "logistic", "A": A, "y": y, "l2": l2}
    return Problem(gt.LinearModel(A, y), ridge(n, l2), None, known)


@family
def robust_regression(seed: int, size: float) -> Problem:
    """Huber's loss with outliers and correlated columns."""
    rng, m, n = draws(seed), sized(4000, size), sized(250, size)
    A = correlated(rng, m, n, 0.95)
    y = A @ rng.standard_normal(n) / np.sqrt(n) + 0.3 * rng.standard_t(1.5, m)
    h = gt.LinearModel(A, y, "huber", delta=0.3)
    return Problem(h, ridge(n, 1e-4))


@family
def log_density(seed: int, size: float) -> Problem:
    """The logarithm of a density by splines."""
    rng, n = draws(seed), sized(200, size, 12)
    bumps = rng.uniform(0.2, 0.8, 4)[rng.integers(0, 4, 3000)] + 0.05 * rng.standard_normal(3000)
    B = splines(np.linspace(0.0, 1.0, 6 * n), n).toarray()
    c = np.asarray(splines(bumps, n).mean(axis=0)).ravel()
    D = differences(n, 3)
    g = gt.Quadratic(sparse.csr_array(1e-3 * (D.T @ D) + 1e-7 * sparse.eye_array(n)))
    return Problem(gt.LogSumExp(B, c), g)


@family
def chain_CRF(seed: int, size: float) -> Problem:
    """Labels of sequences: a linear-chain conditional random field, forward and backward."""
    rng, count, length, d, k = draws(seed), sized(150, size), 15, sized(30, size), 6
    X = rng.standard_normal((length, count, d))
    scores = X @ rng.standard_normal((d, k)) * 0.7
    Y = np.zeros((length, count), int)
    for t in range(length):
        stay = 1.5 * np.eye(k)[Y[t - 1]] if t else 0.0
        Y[t] = (scores[t] + stay + rng.gumbel(size=(count, k))).argmax(axis=1)
    ones = np.eye(k)[Y]
    seen_W = np.tensordot(X, ones, ((0, 1), (0, 1)))
    seen_T = np.einsum("tsk,tsl->kl", ones[:-1], ones[1:])

    def value_and_grad(x: Array) -> Evaluation:
        W, T = x[: d * k].reshape(d, k), x[d * k :].reshape(k, k)
        emit = X @ W
        top, top_T = emit.max(axis=2, keepdims=True), T.max()
        P, E = np.exp(emit - top), np.exp(T - top_T)
        alpha, beta, scale = np.empty_like(P), np.ones_like(P), np.empty((length, count, 1))
        for t in range(length):
            alpha[t] = P[t] * (alpha[t - 1] @ E) if t else P[t]
            scale[t] = alpha[t].sum(axis=1, keepdims=True)
            alpha[t] /= scale[t]
        for t in range(length - 1, 0, -1):
            beta[t - 1] = (P[t] * beta[t] / scale[t]) @ E.T
        later = (P * beta / scale)[1:]
        pairs = E * np.tensordot(alpha[:-1], later, ((0, 1), (0, 1)))
        logs = float(np.log(scale).sum() + top.sum()) + top_T * count * (length - 1)
        value = (logs - float((seen_W * W).sum() + (seen_T * T).sum())) / count
        grad_W = np.tensordot(X, alpha * beta, ((0, 1), (0, 1))) - seen_W
        return value, np.concatenate([grad_W.ravel(), (pairs - seen_T).ravel()]) / count

    n = d * k + k * k
    return Problem(gt.Term(value_and_grad, n=n), ridge(n, 0.001))

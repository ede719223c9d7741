"""The families with bounds, norms and other non-smooth terms."""

from __future__ import annotations

import numpy as np
from scipy import sparse

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
    sparse_truth,
)


@family
def tomography_nonnegative(seed: int, size: float) -> Problem:
    """Least squares on a scan of a picture that is not negative."""
    rng, side = draws(seed), sized(48, size)
    A = projections(side, sized(30, size))
    data = A @ picture(rng, side).ravel() + 0.02 * rng.standard_normal(A.shape[0])
    h = gt.LinearModel(A, data, "squared")
    return Problem(h, roughness(side, 1e-4), gt.NonNegative())


@family
def emission_tomography(seed: int, size: float) -> Problem:
    """Poisson counts of a scan."""
    rng, side = draws(seed), sized(40, size)
    A, n = projections(side, sized(30, size)), side**2
    counts = rng.poisson(100.0 * (A @ picture(rng, side).ravel()) + 2.0).astype(float)
    AT, m, least = sparse.csr_array(A.T), counts.size, 0.5

    def value_and_grad(x: Array) -> Evaluation:
        rate = 100.0 * (A @ x) + 2.0
        safe = np.maximum(rate, least)  # below, the logarithm goes on as its parabola
        under = np.minimum(rate - least, 0.0) / least
        logs = np.log(safe) + under - 0.5 * under**2
        slopes = 1.0 - counts * np.where(under < 0.0, (1.0 - under) / least, 1.0 / safe)
        return float((rate - counts * logs).sum()) / m, AT @ (100.0 * slopes / m)

    h = gt.Term(value_and_grad, n=n)
    return Problem(h, roughness(side, 0.01), gt.NonNegative(), start=np.full(n, 0.1))


@family
def nonnegative_least_squares(seed: int, size: float) -> Problem:
    """A spectrum as a mixture of known ones."""
    rng, m, n = draws(seed), sized(1200, size), sized(600, size)
    at, centre = np.linspace(0.0, 1.0, m)[:, None], np.sort(rng.random(n))
    A = np.exp(-0.5 * ((at - centre) / 0.01) ** 2) + 0.1 * np.exp(
        -0.5 * ((at - centre[::-1]) / 0.02) ** 2
    )
    y = A @ np.abs(sparse_truth(rng, n, n // 10)) + 0.05 * rng.standard_normal(m)
    known = {"kind": "nnls", "A": A, "y": y}
    return Problem(gt.LinearModel(A, y, "squared"), None, gt.NonNegative(), known)


@family
def isotonic(seed: int, size: float) -> Problem:
    """A monotone curve of probabilities by its increments."""
    rng, m, n = draws(seed), sized(4000, size), sized(200, size)
    at = np.sort(rng.integers(0, n, m))
    y = np.where(
        rng.random(m) < 1.0 / (1.0 + np.exp(3.0 - 6.0 * np.floor(at * 8.0 / n) / 8.0)), 1.0, -1.0
    )
    A = (at[:, None] >= np.arange(n)).astype(float)
    lower = np.append(-np.inf, np.zeros(n - 1))
    return Problem(gt.LinearModel(A, y), ridge(n, 1e-5), gt.Box(lower, np.inf))


@family
def SVM_dual(seed: int, size: float) -> Problem:
    """The dual of the kernel support vector machine without intercept."""
    K, y, _ = gaussian_kernel(draws(seed), sized(800, size), 0.4)
    n = y.size
    h = gt.Quadratic(y[:, None] * K * y + 1e-6 * np.eye(n), np.ones(n))
    return Problem(h, None, gt.Box(0.0, 1.0))


@family
def control(seed: int, size: float) -> Problem:
    """Heating a rod along a profile by actuators with bounds."""
    rng, n, steps, inputs = draws(seed), sized(80, size), sized(50, size), 8
    D = differences(n)
    M = np.linalg.inv(np.eye(n) + 2.0 * (D.T @ D).toarray())
    B = np.exp(-0.5 * ((np.arange(n)[:, None] - np.linspace(0, n - 1, inputs)) / (n / 15.0)) ** 2)
    bend = rng.uniform(0.5, 1.5)
    goal = 3.0 * np.sin(bend * np.outer(np.arange(1, steps + 1) / steps, np.linspace(0.0, 6.0, n)))

    def value_and_grad(x: Array) -> Evaluation:
        forces = x.reshape(steps, inputs) @ B.T
        off, y = np.empty((steps, n)), np.zeros(n)
        for t in range(steps):
            y = M @ (y + forces[t])
            off[t] = y - goal[t]
        back, p = np.empty((steps, n)), np.zeros(n)
        for t in range(steps - 1, -1, -1):
            p = M.T @ (p + off[t])
            back[t] = p
        return 0.5 * float((off * off).sum()), (back @ B).ravel()

    S = differences(steps)
    Q = sparse.kron(1.0 * S.T @ S + 1e-2 * sparse.eye_array(steps), sparse.eye_array(inputs))
    h, g = gt.Term(value_and_grad, n=steps * inputs), gt.Quadratic(sparse.csr_array(Q))
    return Problem(h, g, gt.Box(-1.0, 1.0))


@family
def graphical_lasso(seed: int, size: float) -> Problem:
    """The dual: the covariance of largest determinant within bounds; its inverse is sparse."""
    rng, p, bound = draws(seed), sized(60, size), 0.15
    chain = 0.4 * differences(p).T @ differences(p) + 0.3 * sparse.eye_array(p)
    data = rng.standard_normal((3 * p, p)) @ np.linalg.cholesky(np.linalg.inv(chain.toarray())).T
    S: Array = np.asarray(np.corrcoef(data.T))
    upper, least = np.triu_indices(p, 1), 1e-3

    def value_and_grad(x: Array) -> Evaluation:
        W: Array = S.copy()
        W[upper] += x
        W.T[upper] = W[upper]
        values, V = np.linalg.eigh(W)
        safe = np.maximum(values, least)  # below, the logarithm goes on as its parabola
        under = np.minimum(values - least, 0.0) / least
        slopes = np.where(under < 0.0, (1.0 - under) / least, 1.0 / safe)
        value = -float((np.log(safe) + under - 0.5 * under**2).sum())
        return value, -2.0 * ((V * slopes) @ V.T)[upper]

    h = gt.Term(value_and_grad, n=upper[0].size)
    known = {"kind": "glasso", "S": S, "lam": bound, "upper": upper}
    return Problem(h, None, gt.Box(-bound, bound), known)


@family
def lasso(seed: int, size: float) -> Problem:
    """Least squares with few coefficients."""
    rng, m, n = draws(seed), sized(600, size), sized(2500, size)
    A = correlated(rng, m, n, 0.7)
    y = A @ sparse_truth(rng, n, n // 40) + 0.5 * rng.standard_normal(m)
    lam = 0.03 * float(np.abs(A.T @ y).max()) / m
    known = {"kind": "lasso", "A": A, "y": y, "lam": lam, "l2": 0.0}
    return Problem(gt.LinearModel(A, y, "squared"), None, gt.L1(lam), known)


@family
def elastic_net(seed: int, size: float) -> Problem:
    """Least squares with an l1 norm and a ridge."""
    rng, m, n = draws(seed), sized(800, size), sized(1500, size)
    A = correlated(rng, m, n, 0.95)
    y = A @ sparse_truth(rng, n, n // 20) + 0.5 * rng.standard_normal(m)
    lam, l2 = 0.02 * float(np.abs(A.T @ y).max()) / m, 1e-2
    known = {"kind": "lasso", "A": A, "y": y, "lam": lam, "l2": l2}
    return Problem(gt.LinearModel(A, y, "squared"), ridge(n, l2), gt.L1(lam), known)


@family
def sparse_logistic(seed: int, size: float) -> Problem:
    """Words of texts, few of which matter."""
    rng, m, n = draws(seed), sized(4000, size), sized(3000, size)
    words = (rng.pareto(0.7, size=(m, 30)) * n / 200.0).astype(int)
    where = (np.repeat(np.arange(m), 30), np.minimum(words, n - 1).ravel())
    A = sparse.csr_array((np.full(30 * m, 1.0 / np.sqrt(30.0)), where), shape=(m, n))
    A.sum_duplicates()
    A.indices, A.indptr = A.indices.astype(np.int32), A.indptr.astype(np.int32)  # for liblinear
    y = labels(A @ (3.0 * sparse_truth(rng, n, n // 5)), rng, 0.3)
    lam = 0.01 * float(np.abs(A.T @ y).max()) / m
    known = {"kind": "sparse logistic", "A": A, "y": y, "lam": lam}
    return Problem(gt.LinearModel(A, y), None, gt.L1(lam), known)


@family
def sparse_robust_regression(seed: int, size: float) -> Problem:
    """Huber's loss with few coefficients."""
    rng, m, n = draws(seed), sized(1000, size), sized(800, size)
    A = correlated(rng, m, n, 0.8)
    y = A @ sparse_truth(rng, n, n // 20) + 0.3 * rng.standard_t(1.5, m)
    lam = 0.05 * float(np.abs(A.T @ np.clip(y, -0.5, 0.5)).max()) / m
    h = gt.LinearModel(A, y, "huber", delta=0.5)
    return Problem(h, ridge(n, 1e-4), gt.L1(lam))


@family
def group_lasso(seed: int, size: float) -> Problem:
    """Least squares with few groups of coefficients."""
    rng, m, groups = draws(seed), sized(600, size), sized(250, size)
    n = 6 * groups
    A = correlated(rng, m, n, 0.8)
    truth = rng.standard_normal(n) * np.repeat(sparse_truth(rng, groups, groups // 10) != 0.0, 6)
    y = A @ truth + 0.5 * rng.standard_normal(m)
    lam = 0.05 * float(np.linalg.norm((A.T @ y).reshape(-1, 6), axis=1).max()) / m
    known = {"kind": "groups", "A": A, "y": y, "lam": lam, "size": 6}
    return Problem(gt.LinearModel(A, y, "squared"), None, gt.GroupL1(6, lam), known)


@family
def grouped_multinomial(seed: int, size: float) -> Problem:
    """Classes by few features: the coefficients of a feature are a group."""
    rng, m, d, count = draws(seed), sized(1500, size), sized(200, size), 6
    A = correlated(rng, m, d, 0.7)
    truth = rng.standard_normal((d, count)) * (sparse_truth(rng, d, d // 10) != 0.0)[:, None]
    classes = (A @ truth + rng.gumbel(size=(m, count))).argmax(axis=1)
    h, n = multinomial(A, classes, count), d * count
    return Problem(h, ridge(n, 1e-4), gt.GroupL1(count, 0.005))


@family
def portfolio(seed: int, size: float) -> Problem:
    """Shares of assets by scenarios of their returns."""
    rng, m, n = draws(seed), sized(1500, size), sized(500, size)
    factors = rng.standard_normal((m, 20)) * np.geomspace(1.0, 0.1, 20)
    R = factors @ rng.standard_normal((20, n)) + 0.5 * rng.standard_normal((m, n)) * rng.uniform(
        0.2, 1.0, n
    )
    h = gt.LinearModel(R - R.mean(axis=0), np.zeros(m), "squared")
    g = gt.Quadratic(sparse.eye_array(n, format="csr") * 1e-3, 0.1 * rng.random(n))
    return Problem(h, g, gt.Simplex(), start=np.full(n, 1.0 / n))


@family
def matrix_completion(seed: int, size: float) -> Problem:
    """A matrix of low rank from a third of its entries; a proximal step is an SVD."""
    rng, p, q = draws(seed), sized(100, size), sized(80, size)
    M = rng.standard_normal((p, 4)) @ rng.standard_normal((4, q)) + 0.2 * rng.standard_normal(
        (p, q)
    )
    seen = np.flatnonzero(rng.random(p * q) < 0.35)
    data = M.ravel()[seen]

    def value_and_grad(x: Array) -> Evaluation:
        r = x[seen] - data
        grad = np.zeros(x.size)
        grad[seen] = r
        return 0.5 * float(r @ r), grad

    psi = gt.NuclearNorm((p, q), 0.2 * np.sqrt(p))
    return Problem(gt.Term(value_and_grad, n=p * q), None, psi)


@family
def deconvolution(seed: int, size: float) -> Problem:
    """A signal with jumps from its blurred one."""
    rng, n = draws(seed), sized(1500, size)
    truth = np.repeat(rng.standard_normal(30), -(-n // 30))[:n]
    near = np.arange(-15, 16)
    bell = np.exp(-0.5 * (near / 5.0) ** 2)
    kept = np.abs(near) < n
    B = sparse.diags_array(list((bell / bell.sum())[kept]), offsets=list(near[kept]), shape=(n, n))
    A = sparse.csr_array(B)
    y = A @ truth + 0.05 * rng.standard_normal(n)
    return Problem(gt.LinearModel(A, y, "squared"), None, gt.TotalVariation(0.1 / n))


@family
def fused_logistic(seed: int, size: float) -> Problem:
    """Ordered covariates whose effects are constant in pieces."""
    rng, m, n = draws(seed), sized(1500, size), sized(500, size)
    A = correlated(rng, m, n, 0.9)
    y = labels(A @ np.repeat(sparse_truth(rng, 10, 5), -(-n // 10))[:n], rng, 0.5)
    return Problem(gt.LinearModel(A, y), ridge(n, 0.001), gt.TotalVariation(0.02))

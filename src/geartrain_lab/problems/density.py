r"""The log-density with a Gaussian prior, problem eq:softmax_reg of the paper.

.. math::
    \min_x \ln \sum_{k=1}^p \exp \langle A_k, x \rangle + \tfrac12 \|G x\|^2

A is sparse with entries uniform on (-1, 1); G^2 = sum_i lambda_i e_i e_i' with sum lambda_i = 1 and
entries of e_i uniform on (1, 2). h is the logarithm and g the quadratic.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from geartrain.oracles import LogSumExp, Quadratic
from geartrain.oracles.protocols import Vector

# Section 5.2 of the paper; the seed is ours.
N, P, SPARSITY, SEED = 500, 6000, 0.001, 7


def log_density(
    n: int = N, p: int = P, sparsity: float = SPARSITY, seed: int = SEED
) -> tuple[LogSumExp, Quadratic]:
    """Terms (h, g) of a random instance, by default of the size of Section 5.2."""
    rng = np.random.default_rng(seed)
    A = sparse.random_array(
        (p, n), density=sparsity, rng=rng, data_sampler=lambda size: rng.uniform(-1, 1, size)
    )
    weights = rng.uniform(size=n)
    weights /= weights.sum()
    E = rng.uniform(1.0, 2.0, (n, n))
    G2 = (E.T * weights) @ E
    return LogSumExp(sparse.csr_array(A)), Quadratic(0.5 * (G2 + G2.T))


def newton(
    h: LogSumExp, g: Quadratic, tol: float = 1e-13, max_iter: int = 100
) -> tuple[Vector, float]:
    """Minimiser of h + g by Newton's method with Armijo's rule.

    The answer is the iterate with the smallest Newton decrement lambda, and lambda^2/2, which
    estimates f(x) - f*.
    """
    A: Any = h.A
    x = np.zeros(A.shape[1])
    best = (x, np.inf)
    for _ in range(max_iter):
        scores = A @ x
        pi = np.exp(scores - scores.max())
        pi /= pi.sum()
        mean = A.T @ pi
        hessian = (A.T @ A.multiply(pi[:, None]).tocsr()).toarray() - np.outer(mean, mean) + g.Q
        grad = mean + g.grad(x)
        step = np.linalg.solve(hessian, grad)
        decrement = 0.5 * float(grad @ step)
        if decrement < best[1]:
            best = (x, decrement)
        if decrement <= tol:
            break
        f, t = h.value(x) + g.value(x), 1.0
        while t > 1e-6 and h.value(x - t * step) + g.value(x - t * step) > f - 0.5 * t * decrement:
            t *= 0.5
        x = x - t * step
    return best

"""Accelerated coordinate methods as printed: whole vectors, no change of variables."""

import numpy as np


def nu_acdm(grad, y0, L, sigma, index):
    """NU_ACDM with eta; the pair (y, z)."""
    y = z = y0
    S = np.sqrt(L).sum()
    p = np.sqrt(L) / S
    tau = 2 / (1 + np.sqrt(4 * S**2 / sigma + 1))
    eta = 1 / (tau * S**2)
    for i in index:
        x = tau * z + (1 - tau) * y
        e = np.zeros(y.size)
        e[i] = grad(x)[i]
        y = x - e / L[i]
        z = (z + eta * sigma * x - eta / p[i] * e) / (1 + eta * sigma)
    return y, z


def nesterov_stich(grad, x0, L, beta, sigma, index, restart=None):
    """The method with p_i ~ L_i^beta; the pair (x, v)."""
    x = v = x0
    S = (L**beta).sum()
    p, w = L**beta / S, L ** (1 - 2 * beta)
    A, B = 0.0, 1.0
    for k, i in enumerate(index):
        if restart is not None and k > 0 and k % restart == 0:
            v, A, B = x, 0.0, 1.0
        a = np.roots([S**2 - sigma, -(B + sigma * A), -A * B]).real.max()
        A, B = A + a, B + sigma * a
        al, be = a / A, sigma * a / B
        y = ((1 - al) * x + al * (1 - be) * v) / (1 - al * be)
        e = np.zeros(x.size)
        e[i] = grad(y)[i]
        x = y - e / L[i]
        v = (1 - be) * v + be * y - a / (B * w[i] * p[i]) * e
    return x, v


def approx(grad_g, x0, b, beta, alpha, index, restart, prox=lambda u, weight: u):
    """Serial APPROX with beta_i t + alpha/2 t^2 and what has the `prox`; the pair (x, z)."""
    n = x0.size
    x = z = x0
    theta = 1 / n
    for k, i in enumerate(index):
        if k > 0 and k % restart == 0:
            z, theta = x, 1 / n
        y = (1 - theta) * x + theta * z
        z_next = z.copy()
        weight = n * theta * b[i]
        z_next[i] = (weight * z[i] - grad_g(y)[i] - beta[i]) / (weight + alpha)
        z_next[i] = prox(z_next, weight + alpha)[i]
        x = y + n * theta * (z_next - z)
        z = z_next
        theta = (np.sqrt(theta**4 + 4 * theta**2) - theta**2) / 2
    return x, z


def directional(value, x0, L, sigma, directions, t):
    """Accelerated directional search with central differences of phi itself; (x, v)."""
    n = x0.size
    x = v = x0
    A, B = 0.0, 1.0
    for e in directions:
        a = np.roots([n**2 * L - sigma, -(B + sigma * A), -A * B]).real.max()
        A, B = A + a, B + sigma * a
        al, be = a / A, sigma * a / B
        y = ((1 - al) * x + al * (1 - be) * v) / (1 - al * be)
        d = (value(y + t * e) - value(y - t * e)) / (2 * t)
        x = y - d / L * e
        v = (1 - be) * v + be * y - a / B * n * d * e
    return x, v

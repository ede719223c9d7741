"""RPDG, SPDC and APCG as printed, in plain NumPy with whole vectors.

`D` are the weights of the exactly treated quadratic, a number or one for each coordinate.
"""

import numpy as np
from scipy.optimize import brentq


def rpdg(component, m, L_k, orders, beta, D, v0):
    """Algorithm 4 of Lan and Zhou for sum_i f_i with f_i = g_i/m; (x^t, x^{t-1}) after each."""
    p = 1 / (2 * m) + L_k / (2 * L_k.sum())
    mu, L = np.min(D), L_k.sum() / m  # L = sum of the constants of the f_i
    C = 8 * L / mu
    root = np.sqrt((m - 1) ** 2 + 4 * m * C)
    tau, eta, alpha = (root - (m - 1)) / (2 * m), mu * (root + (m - 1)) / 2, 1 - 1 / (m + 1 + root)
    x = x_before = v0
    low = [v0] * m
    y = [component(v0, i) / m for i in range(m)]
    out = []
    for order in orders:
        for i in order:
            x_tilde = alpha * (x - x_before) + x
            low[i] = (x_tilde + tau * low[i]) / (1 + tau)
            y_new = component(low[i], i) / m
            y_tilde = sum(y) + (y_new - y[i]) / p[i]
            y[i] = y_new
            x, x_before = (eta * x - beta - y_tilde) / (D + eta), x
        out.append((x, x_before))
    return out


def dual_argmax(derivative, y_i, target, sigma, old):
    """argmax_s s target - loss^*(s) - (s - old)^2/(2 sigma), by the root of its condition.

    With s = loss'(zeta): zeta + s/sigma = target + old/sigma.
    """

    def gap(zeta):
        return zeta + derivative(y_i, zeta) / sigma - target - old / sigma

    width = 1.0
    while gap(target - width) > 0 or gap(target + width) < 0:
        width *= 2
    return derivative(y_i, brentq(gap, target - width, target + width, xtol=1e-15, rtol=1e-15))


def spdc(A, y, derivative, curvature, orders, beta, D, v0):
    """Algorithm 1 of Zhang and Xiao, batches of one; (x^t, x^{t-1}, dual) after each."""
    n = len(A)
    lam, gamma, R = np.min(D), 1 / curvature, np.sqrt((A**2).sum(axis=1).max())
    tau, sigma = np.sqrt(gamma / (n * lam)) / (2 * R), np.sqrt(n * lam / gamma) / (2 * R)
    theta = 1 - 1 / (n + R * np.sqrt(n / (lam * gamma)))
    x = x_bar = x_before = v0
    dual = np.array([derivative(y[i], A[i] @ v0) for i in range(n)])
    out = []
    for order in orders:
        for k in order:
            u = A.T @ dual / n
            new = dual_argmax(derivative, y[k], A[k] @ x_bar, sigma, dual[k])
            x_new = (x / tau - beta - u - (new - dual[k]) * A[k]) / (D + 1 / tau)
            x_bar = x_new + theta * (x_new - x)
            dual[k] = new
            x, x_before = x_new, x
        out.append((x, x_before, dual.copy()))
    return out


def apcg(A, y, derivative, curvature, orders, beta, D, v0, prox=lambda u, weight: u):
    """Algorithm 2 of Lin, Lu and Xiao on the dual; (x, z) and the primal point after each."""
    m = len(A)

    def primal(s):
        """Coordinate by coordinate, for the weights D may differ."""
        u = -(beta + A.T @ s / m) / D
        return np.array([prox(u, D[j])[j] for j in range(len(D))])

    gamma = 1 / curvature
    L = (A**2 / D).sum(axis=1) / m**2 + gamma / m
    mu = gamma / m / L.max()
    a = np.sqrt(mu) / m
    x = z = np.array([derivative(y[i], A[i] @ v0) for i in range(m)])
    out = []
    for order in orders:
        for i in order:
            s = (x + a * z) / (1 + a)
            grad_i = -A[i] @ primal(s) / m + gamma * s[i] / m
            centre = (1 - a) * z + a * s
            # argmin m a L_i/2 (t - centre_i)^2 + grad_i t + (loss^*(t) - gamma/2 t^2)/m

            def slope(zeta, i=i, grad_i=grad_i, centre=centre):
                t = derivative(y[i], zeta)
                return m * a * L[i] * (t - centre[i]) + grad_i + (zeta - gamma * t) / m

            width = 1.0
            while slope(-width) > 0 or slope(width) < 0:
                width *= 2
            z_new = centre.copy()
            z_new[i] = derivative(y[i], brentq(slope, -width, width, xtol=1e-15, rtol=1e-15))
            x = s + m * a * (z_new - z) + m * a**2 * (z - s)
            z = z_new
        out.append((x, z, primal(x)))
    return out

"""Katyusha, loopless Katyusha, Varag, Katyusha on the whole and Catalyst, as printed.

`component(x, k)` is the gradient of the k-th sampled summand, `alpha` the weight of the exactly
treated quadratic, a number or one for each coordinate; `prox(u, weight)` is that of a further term.
"""

import numpy as np


def estimate(component, m, p, x, xt, k):
    """grad g(xt) + (grad g_k(x) - grad g_k(xt))/(m p_k), the full gradient computed afresh."""
    full = sum(component(xt, j) for j in range(m)) / m
    return full + (component(x, k) - component(xt, k)) / (m * p[k])


def nothing(u, weight):
    return u


def katyusha(component, m, p, L, orders, beta, alpha, v0, convex=False, prox=nothing):
    """Algorithms 1 and 2 of Allen-Zhu, option II; (xt, y, z) after each epoch."""
    xt = y = z = v0
    strong = np.min(alpha)
    out = []
    for s, order in enumerate(orders):
        l = len(order)
        tau_2 = 1 / 2
        tau_1 = 2 / (s + 4) if convex else min(np.sqrt(l * strong / (3 * L)), 1 / 2)
        a = 1 / (3 * tau_1 * L)
        ys = []
        for k in order:
            x = tau_1 * z + tau_2 * xt + (1 - tau_1 - tau_2) * y
            G = estimate(component, m, p, x, xt, k) + beta
            z_next = prox((z - a * G) / (1 + a * alpha), 1 / a + alpha)
            y, z = x + tau_1 * (z_next - z), z_next
            ys.append(y)
        weights = (1 + a * strong) ** (np.arange(l) - l)
        xt = weights @ np.array(ys) / weights.sum()
        out.append((xt, y, z))
    return out


def prox_svrg(component, m, p, L, orders, beta, alpha, v0):
    """Prox-SVRG with step 1/(3 L), v kept over epochs, snapshot by weights; (xt, v)."""
    xt = v = v0
    a = 1 / (3 * L)
    out = []
    for order in orders:
        vs = []
        for k in order:
            v = (v - a * (estimate(component, m, p, v, xt, k) + beta)) / (1 + a * alpha)
            vs.append(v)
        weights = (1 + a * np.min(alpha)) ** (np.arange(len(order)) - len(order))
        xt = weights @ np.array(vs) / weights.sum()
        out.append((xt, v))
    return out


def l_katyusha(component, m, p, L, orders, beta, alpha, v0, prob, prox=nothing):
    """Algorithm 2 of Kovalev, Horvath, Richtarik on phi whole; a flip ends each of `orders`."""
    w = y = z = v0
    sigma = alpha / L
    theta_2 = 1 / 2
    theta_1 = min(np.sqrt(2 * sigma / (3 * prob)), 1 / 2)
    eta = theta_2 / ((1 + theta_2) * theta_1)
    out = []
    for order in orders:
        for j, k in enumerate(order):
            x = theta_1 * z + theta_2 * w + (1 - theta_1 - theta_2) * y
            G = estimate(component, m, p, x, w, k) + beta + alpha * x
            z_next = prox((eta * sigma * x + z - eta / L * G) / (1 + eta * sigma), L / eta + alpha)
            y_next = x + theta_1 * (z_next - z)
            w_next = y if j == len(order) - 1 else w
            w, y, z = w_next, y_next, z_next
        out.append((w, y, z))
    return out


def varag(component, m, p, L, orders, beta, alpha, v0, prox=nothing):
    """Varag of Lan, Li, Zhou with the strong convexity in the simple term; (xt, xbar, x)."""
    xt = x = v0
    s_0 = int(np.floor(np.log2(m))) + 1
    out = []
    for s, order in enumerate(orders, start=1):
        T = 2 ** (min(s, s_0) - 1)
        assert len(order) == T
        p_s = 1 / 2
        if s <= s_0:
            alpha_s = 1 / 2
        else:
            alpha_s = max(2 / (s - s_0 + 4), min(np.sqrt(m * alpha / (3 * L)), 1 / 2))
        gamma = 1 / (3 * L * alpha_s)
        xbar = xt
        bars = []
        for k in order:
            low = (1 - alpha_s - p_s) * xbar + alpha_s * x + p_s * xt
            G = estimate(component, m, p, low, xt, k) + beta
            x = prox((x - gamma * G) / (1 + gamma * alpha), 1 / gamma + alpha)
            xbar = (1 - alpha_s - p_s) * xbar + alpha_s * x + p_s * xt
            bars.append(xbar)
        t = np.arange(1, T + 1)
        if s <= s_0 or (m < 3 * L / (4 * alpha) and s <= s_0 + np.sqrt(12 * L / (m * alpha)) - 4):
            theta = np.where(t < T, gamma / alpha_s * (alpha_s + p_s), gamma / alpha_s)
        else:
            Gamma = (1 + alpha * gamma) ** np.arange(T + 1)
            theta = np.where(t < T, Gamma[t - 1] - (1 - alpha_s - p_s) * Gamma[t], Gamma[t - 1])
        xt = theta @ np.array(bars) / theta.sum()
        out.append((xt, xbar, x))
    return out


def katyusha_whole(grad_h, component, m, p, L, orders, mu, x0):
    """Katyusha on (1/m) sum (h + g_k), strong convexity in f; (xt, y, z) after each epoch."""
    xt = y = z = x0
    out = []
    for s, order in enumerate(orders):
        l = len(order)
        tau_1 = min(np.sqrt(l * mu / (3 * L)), 1 / 2) if mu else 2 / (s + 4)
        a = 1 / (3 * tau_1 * L)
        ys = []
        for k in order:
            x = tau_1 * z + xt / 2 + (1 / 2 - tau_1) * y
            G = grad_h(x) + estimate(component, m, p, x, xt, k)
            z_next = (z + a * mu * x - a * G) / (1 + a * mu)
            y = x + tau_1 * (z_next - z)
            z = z_next
            ys.append(y)
        weights = (1 + a * mu) ** (np.arange(l) - l)
        xt = weights @ np.array(ys) / weights.sum()
        out.append((xt, y, z))
    return out


def catalyst(grad, L, mu, kappa, x0, N):
    """Catalyst over gradient descent, criterion C2; the list of (x, y, inner steps)."""
    q = mu / (mu + kappa)
    a = np.sqrt(q) if mu else (np.sqrt(5) - 1) / 2
    x = y = y_before = x0
    out = []
    for k in range(1, N + 1):
        delta = np.sqrt(q) / (2 - np.sqrt(q)) if mu else 1 / (k + 1) ** 2
        v = x + kappa / (kappa + mu) * (y - y_before)
        steps = 0
        while True:
            grad_H = grad(v) + kappa * (v - y)
            if grad_H @ grad_H <= delta * kappa * (kappa + mu) * ((v - y) @ (v - y)):
                break
            v = v - grad_H / (L + kappa)
            steps += 1
        a_next = np.roots([1.0, a**2 - q, -(a**2)]).max()
        beta = a * (1 - a) / (a**2 + a_next)
        y_before, y = y, v + beta * (v - x)
        x, a = v, a_next
        out.append((x, y, steps))
    return out

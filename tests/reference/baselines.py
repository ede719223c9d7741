"""FGM, AGS and the Monteiro-Svaiter method on the whole, as printed."""

import numpy as np


def fgm(grad, x0, L, mu, N):
    """Nesterov's scheme with variable momentum; the list of x."""
    x = y = x0
    theta = 1.0
    q = mu / L
    out = []
    for _ in range(N):
        x_next = y - grad(y) / L
        theta_next = np.roots([1.0, theta**2 - q, -(theta**2)]).max()
        y = x_next + theta * (1 - theta) / (theta**2 + theta_next) * (x_next - x)
        x, theta = x_next, theta_next
        out.append(x)
    return out


def ags(grad_h, grad_g, x0, L, M, N):
    """Accelerated gradient sliding; the list of x_bar."""
    T = int(np.ceil(np.sqrt(M / L)))
    x_bar = x = x0
    out = []
    for k in range(1, N + 1):
        gamma = 2 / (k + 1)
        lam = 1.0 if k == 1 else gamma * (T + 1) * (T + 2) / (T * (T + 3))
        beta = 3 * L * gamma / (k * lam)
        gradient = grad_h((1 - gamma) * x_bar + gamma * x)
        u, u_tilde = x, x_bar
        for t in range(1, T + 1):
            if k == 1:
                alpha, p, q = 2 / (t + 1), (t - 1) / 2, 6 * M / t
            else:
                alpha, p, q = 2 / (t + 2), t / 2, 6 * M / (k * (t + 1))
            u_low = (1 - lam) * x_bar + lam * (1 - alpha) * u_tilde + lam * alpha * u
            u = (beta * x + (beta * p + q) * u - gradient - grad_g(u_low)) / (beta + beta * p + q)
            u_tilde = (1 - alpha) * u_tilde + alpha * u
        x_bar = (1 - lam) * x_bar + lam * u_tilde
        x = u
        out.append(x_bar)
    return out


def gradient_sliding(grad_h, sub_g, x0, L, M, N, R):
    """Algorithm 1 of Lan (2016) with Corollary 2; the list of x_bar."""
    D = 3 * R**2 / 4
    x_bar = x = x0
    out = []
    for k in range(1, N + 1):
        gamma, beta = 2 / (k + 1), 2 * L / k
        T = int(np.ceil(M**2 * N * k**2 / (D * L**2)))
        gradient = grad_h((1 - gamma) * x_bar + gamma * x)
        P = 1.0
        u = u_tilde = x
        for t in range(1, T + 1):
            p = t / 2
            P_next = P * p / (1 + p)
            theta = (P - P_next) / ((1 - P_next) * P)
            # argmin <gradient + g'(u), v> + beta/2 |v - x|^2 + beta p/2 |v - u|^2
            u = (beta * x + beta * p * u - gradient - sub_g(u)) / (beta + beta * p)
            u_tilde = (1 - theta) * u_tilde + theta * u
            P = P_next
        x_bar = (1 - gamma) * x_bar + gamma * u_tilde
        x = u
        out.append(x_bar)
    return out


def conditional_gradient_sliding(grad, lmo, x0, L, D, N):
    """Algorithm 1 of Lan and Zhou (2016), smooth f; a list of (z, x, y, calls of lmo)."""
    x = y = x0
    out = []
    for k in range(1, N + 1):
        beta, gamma, eta = 3 * L / (k + 1), 3 / (k + 2), L * D**2 / (k * (k + 1))
        z = (1 - gamma) * y + gamma * x
        x, asked = _cndg(grad(z), x, beta, eta, lmo)
        y = (1 - gamma) * y + gamma * x
        out.append((z, x, y, asked))
    return out


def _cndg(g, u, beta, eta, lmo):
    """Procedure CndG: the point, and the calls of lmo."""
    u_t, t = u, 1
    while True:
        v_t = lmo(g + beta * (u_t - u))
        if (g + beta * (u_t - u)) @ (u_t - v_t) <= eta:
            return u_t, t
        alpha = ((beta * (u - u_t) - g) @ (v_t - u_t)) / (beta * np.sum((v_t - u_t) ** 2))
        u_t = (1 - min(1.0, alpha)) * u_t + min(1.0, alpha) * v_t
        t += 1


def frank_wolfe(grad, lmo, x0, L, N):
    """Frank and Wolfe with the short step; the list of x."""
    x, out = x0, []
    for _ in range(N):
        d = grad(x)
        s = lmo(d)
        alpha = min(1.0, (d @ (x - s)) / (L * np.sum((x - s) ** 2)))
        x = (1 - alpha) * x + alpha * s
        out.append(x)
    return out

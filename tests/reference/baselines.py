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

"""SAE, R-SAE, GMCO, SC-SAE and AFB as printed, with exact or given inner solutions."""

import numpy as np


def agm(grad_phi, v0, L, q, stop):
    """Accelerated gradient on the whole of phi with Nesterov's variable momentum."""
    x = v = v0
    theta = 1.0
    gradient = grad_phi(v)
    steps = 0
    while not stop(v, gradient):
        x_next = v - gradient / L
        theta_next = np.roots([1.0, theta**2 - q, -(theta**2)]).max()
        v = x_next + theta * (1 - theta) / (theta**2 + theta_next) * (x_next - x)
        x, theta = x_next, theta_next
        gradient = grad_phi(v)
        steps += 1
    return v, steps


def gmco(grad_h, solve, x, L, L_h, sigma, grad_f):
    """Procedure GMCO: steps until the Monteiro-Svaiter test holds; all zeta."""
    zetas = [x]
    while True:
        zeta = zetas[-1]
        # phi(v) = <grad h(zeta), v> + g(v) + L/2 |v - x|^2 + L_h/2 |v - zeta|^2
        zetas.append(solve(grad_h(zeta) - L * x - L_h * zeta, L + L_h, zeta, x))
        gradient = grad_f(zetas[-1]) + L * (zetas[-1] - x)
        if np.linalg.norm(gradient) <= sigma * L * np.linalg.norm(zetas[-1] - x):
            return zetas


def sae(grad_h, grad_g, solve, x0, L, L_h, sigma, N):
    """Algorithm 1; the list of (A, x, y, z)."""

    def grad_f(v):
        return grad_h(v) + grad_g(v)

    y = z = x0
    A = 0.0
    out = []
    for _ in range(N):
        a = (1 / L + np.sqrt(1 / L**2 + 4 * A / L)) / 2
        A_next = A + a
        x = A / A_next * y + a / A_next * z
        y = gmco(grad_h, solve, x, L, L_h, sigma, grad_f)[-1]
        z = z - a * grad_f(y)
        A = A_next
        out.append((A, x, y, z))
    return out


def r_sae(grad_h, grad_g, solve, eta, L, L_h, sigma, mu, stages):
    """Algorithm 2; all y of all stages."""
    N_0 = int(np.ceil(np.sqrt(8 * L / mu)))
    ys = []
    for _ in range(stages):
        run = sae(grad_h, grad_g, solve, eta, L, L_h, sigma, N_0)
        ys += [y for _, _, y, _ in run]
        eta = ys[-1]
    return ys


def _recursion(A, eta, mu):
    # a^2 (1 + mu eta) = eta A_+ (1 + mu A_+): the larger root of a quadratic equation in a
    roots = np.roots([1.0 + mu * eta - eta * mu, -eta * (1 + 2 * mu * A), -eta * A * (1 + mu * A)])
    a = roots.max()
    A_next = A + a
    theta = a * (1 + mu * A) * (1 + mu * eta) / (A_next * (1 + mu * A_next))
    return a, A_next, theta


def sc_sae(grad_f, prox_f, x0, L, mu, N):
    """SC-SAE with exact proximal steps of f; the list of (A, x, y, z)."""
    x = z = x0
    A = 0.0
    out = []
    for _ in range(N):
        a, A_next, theta = _recursion(A, 1 / L, mu)
        y = x + theta * (z - x)
        x = prox_f(y, L)
        z = ((1 + mu * A) * z + a * mu * x - a * grad_f(x)) / (1 + mu * A_next)
        A = A_next
        out.append((A, x, y, z))
    return out


def afb(grad_h, grad_g, solve, x0, L_h, mu, N):
    """AFB with zeta = sigma = 0, strong convexity in g; the list of (A, x, y, z)."""
    x = z = x0
    A = 0.0
    lam = 1 / L_h
    out = []
    for _ in range(N):
        a, A_next, theta = _recursion(A, lam, mu)
        y = x + theta * (z - x)
        x = solve(grad_h(y) - y / lam, 1 / lam, y, y)
        G = grad_h(y) + grad_g(x)
        z = ((1 + mu * A) * z + a * mu * x - a * G) / (1 + mu * A_next)
        A = A_next
        out.append((A, x, y, z))
    return out

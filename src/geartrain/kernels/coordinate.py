r"""Loops of the accelerated coordinate methods.

All of them are one recursion on the main sequence x and the second sequence z, u = x - z:

========  =========  ===============================================================
symbol    name       meaning
========  =========  ===============================================================
kappa_t   ``k``      the derivative is asked at q = z + kappa_t u
beta_t    ``be``     z moves towards q by this share
a_t       ``a``      weight of the step of z
========  =========  ===============================================================

    x_+ = q + dx e_i,   z_+ = z + beta_t (q - z) + dz e_i,   so that
    u_+ = (1 - beta_t) kappa_t u + (dx - dz) e_i.

Stored are z^ and u^ with z = z^ + s u^, u = r u^: a step changes s, r and one coordinate of each.
When r falls below `FOLD`, s and r are folded into the vectors: O(n) work every few n steps, and no
cancellation between z^ and s u^.

A partial derivative of a quadratic is a dot product of one row with z^ and u^, so nothing has to
be carried. For the others the products A z^ and A u^ are carried along.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from geartrain.kernels.partials import Columns, move, partial
from geartrain.oracles.protocols import Vector

# With a threshold of 1e-6 the iterates lose two digits more.
FOLD = 1e-3


@njit(cache=True)
def fold(z: Vector, u: Vector, s: float, r: float) -> None:
    """z^ <- z^ + s u^, u^ <- r u^."""
    for j in range(z.size):
        z[j] += s * u[j]
        u[j] *= r


@njit(cache=True)
def advance(
    tally: NDArray[np.int64],
    T: Columns,
    Pz: Vector,
    Pu: Vector,
    z: Vector,
    u: Vector,
    index: NDArray[np.int64],
    k: Vector,
    be: Vector,
    a: Vector,
    step_x: Vector,
    step_z: Vector,
    beta: Vector,
    alpha: float,
    composite: bool,
) -> None:
    """Steps of a coordinate method on <beta, .> + alpha/2 |.|^2 + term, in place.

    Plain: dx = -step_x_i d, dz = -a_t step_z_i d with d the derivative of phi. Composite (APPROX):
    dz = -(d_i + beta_i + alpha z_i)/(a_t/step_x_i + alpha), dx = a_t dz with d that of the term.
    """
    s, r = 0.0, 1.0
    for t in range(index.size):
        i = index[t]
        c = s + k[t] * r
        tally[0] += 1
        d = partial(T, Pz, Pu, z, u, c, i) + beta[i]
        if composite:
            dz = -(d + alpha * (z[i] + s * u[i])) / (a[t] / step_x[i] + alpha)
            dx = a[t] * dz
        else:
            d += alpha * (z[i] + c * u[i])
            dx = -step_x[i] * d
            dz = -a[t] * step_z[i] * d
        s += be[t] * k[t] * r
        r *= (1.0 - be[t]) * k[t]
        if r < FOLD:
            fold(z, u, s, r)
            fold(Pz, Pu, s, r)
            s, r = 0.0, 1.0
        du = (dx - dz) / r
        dz -= s * du
        z[i] += dz
        u[i] += du
        move(T, Pz, Pu, i, dz, du)
    fold(z, u, s, r)
    fold(Pz, Pu, s, r)


@njit(cache=True)
def advance_sum(
    tally_h: NDArray[np.int64],
    tally_g: NDArray[np.int64],
    H: Columns,
    Hz: Vector,
    Hu: Vector,
    G: Columns,
    Gz: Vector,
    Gu: Vector,
    z: Vector,
    u: Vector,
    index: NDArray[np.int64],
    k: Vector,
    be: Vector,
    a: Vector,
    step_x: Vector,
    step_z: Vector,
) -> None:
    """`advance` on the sum of two terms."""
    s, r = 0.0, 1.0
    for t in range(index.size):
        i = index[t]
        c = s + k[t] * r
        tally_h[0] += 1
        d = partial(H, Hz, Hu, z, u, c, i)
        tally_g[0] += 1
        d += partial(G, Gz, Gu, z, u, c, i)
        s += be[t] * k[t] * r
        r *= (1.0 - be[t]) * k[t]
        if r < FOLD:
            fold(z, u, s, r)
            fold(Hz, Hu, s, r)
            fold(Gz, Gu, s, r)
            s, r = 0.0, 1.0
        dz = -a[t] * step_z[i] * d
        du = (-step_x[i] * d - dz) / r
        dz -= s * du
        z[i] += dz
        u[i] += du
        move(H, Hz, Hu, i, dz, du)
        move(G, Gz, Gu, i, dz, du)
    fold(z, u, s, r)
    fold(Hz, Hu, s, r)
    fold(Gz, Gu, s, r)


@njit
def advance_user(
    tally: NDArray[np.int64],
    coord: Any,
    z: Vector,
    u: Vector,
    index: NDArray[np.int64],
    k: Vector,
    be: Vector,
    a: Vector,
    step_x: Vector,
    step_z: Vector,
    beta: Vector,
    alpha: float,
    composite: bool,
) -> None:
    """`advance` for a jitted ``coord(x, i)``, which has to be shown the whole point: O(n) a step.

    Compiled anew in every process, since the function is the user's.
    """
    q = np.empty_like(z)
    s, r = 0.0, 1.0
    for t in range(index.size):
        i = index[t]
        c = s + k[t] * r
        for j in range(z.size):
            q[j] = z[j] + c * u[j]
        tally[0] += 1
        d = coord(q, i) + beta[i]
        if composite:
            dz = -(d + alpha * (z[i] + s * u[i])) / (a[t] / step_x[i] + alpha)
            dx = a[t] * dz
        else:
            d += alpha * (z[i] + c * u[i])
            dx = -step_x[i] * d
            dz = -a[t] * step_z[i] * d
        s += be[t] * k[t] * r
        r *= (1.0 - be[t]) * k[t]
        if r < FOLD:
            fold(z, u, s, r)
            s, r = 0.0, 1.0
        du = (dx - dz) / r
        z[i] += dz - s * du
        u[i] += du
    fold(z, u, s, r)


@njit(cache=True)
def draw(cumulative: Vector, guide: NDArray[np.int64], uniform: Vector) -> NDArray[np.int64]:
    """Inverse of the distribution function, with a guide table: O(1) a draw in expectation."""
    index = np.empty(uniform.size, dtype=np.int64)
    for t in range(uniform.size):
        x = uniform[t]
        i = guide[int(x * guide.size)]
        while cumulative[i] <= x:
            i += 1
        index[t] = i
    return index


@njit(cache=True)
def estimating_sequence(
    A: float, B: float, S: float, sigma: float, steps: int
) -> tuple[Vector, Vector, Vector, float, float]:
    """Weights of Nesterov and Stich: kappa, beta, a/B_+ of every step, and the last A and B."""
    kappa, beta, push = np.empty(steps), np.empty(steps), np.empty(steps)
    for t in range(steps):
        # S^2 a^2 = (A + a)(B + sigma a), the larger root; S^2 = sigma only if n = 1 and g = 0
        c2, c1 = max(S * S - sigma, 1e-12 * S * S), B + sigma * A
        a = (c1 + math.sqrt(c1 * c1 + 4.0 * c2 * A * B)) / (2.0 * c2)
        A += a
        B += sigma * a
        al, be = a / A, sigma * a / B
        kappa[t] = (1.0 - al) / (1.0 - al * be)
        beta[t] = be
        push[t] = a / B
        if A > 1e100:  # only the ratios of A, B and a matter
            A, B = A * 1e-100, B * 1e-100
    return kappa, beta, push, A, B


@njit(cache=True)
def thetas(theta: float, size: int) -> Vector:
    """theta_+ = (sqrt(theta^4 + 4 theta^2) - theta^2)/2, from the first on."""
    out = np.empty(size)
    for t in range(size):
        out[t] = theta
        square = theta * theta
        theta = 0.5 * (math.sqrt(square * square + 4.0 * square) - square)
    return out

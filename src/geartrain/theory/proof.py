r"""The steps of the proof of Theorem 1 (Section 6), with every constant.

===============  ============  =======================================================
symbol           name          meaning
===============  ============  =======================================================
zeta^0, zeta*    --            start of GMCO, minimiser of F_{L,zeta^0}
K_GMCO           ``steps``     steps of GMCO until the Monteiro-Svaiter test holds
T_SAE            ``steps``     iterations of SAE or R-SAE
eps~             ``accuracy``  accuracy of an inner run, in the sense of (17)
===============  ============  =======================================================

Where the constants that the paper prints differ from those that its inequalities give, the latter
are used, and a remark `Deviation` says so.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Sure(NamedTuple):
    """So many steps suffice with probability 1 - delta if each succeeds with 1 - `each`."""

    steps: float
    each: float  # probability with which one step may fail: delta/steps


class Assumption4(NamedTuple):
    """Constants of Assumption 4 for one inner method and one alpha."""

    tau_g: float
    C_0: float
    C: float


class Middle(NamedTuple):
    """Both bounds of Theorem 2."""

    gap: float  # of F(zeta^K) - F(zeta*)
    distance: float  # of |zeta^K - zeta*|


# Paper: Assumption 4
def assumption_4(setting: str, *, alpha: float, L_g: float, size: int = 1) -> Assumption4:
    r"""Assumption 4 for the inner methods of the library: tau_g, C_0 and C.

    `setting` is "full" (AGM), "coordinate" (ACD, `size` is n), "finite-sum" (LKatyusha and
    Katyusha, `size` is m) or "values" (CoordinateSearch and DirectionalSearch, `size` is n); L_g is
    the constant of that setting. With M the smoothness of phi:

    - AGM: tau_g = sqrt(M), C_0 = 1; phi(v_k) - phi* <= (M/2) (1 + 1/sqrt q) (1 - sqrt q)^(k-1)
      \|v^0 - v*\|^2 at the extrapolated points v_k, q = alpha/M.
    - ACD: tau_g = sum_i sqrt(beta_i + alpha) + sqrt(alpha), C = (M + alpha)/2. C_0 = 2, because as
      many derivatives again go into the gradients of the tests. The same for values, two of which
      make one derivative.
    - LKatyusha: tau_g = sqrt(6 m L_g) + (4 m + 1) sqrt(alpha). C_0 = 2, because as many gradients
      of summands again go into the snapshots, in the mean.

    # Deviation: tau_g of the paper does not depend on alpha and leaves numerical factors to C_0.
    """
    root = math.sqrt(alpha)
    if setting == "full":
        M = L_g + alpha
        q = alpha / M
        # The gradient at v^0 and the exponent k - 1 are two calls more: exp(2 sqrt q) in C.
        return Assumption4(
            math.sqrt(M), 1.0, 0.5 * M * (1.0 + 1.0 / math.sqrt(q)) * math.exp(2.0 * math.sqrt(q))
        )
    if setting == "finite-sum":
        M, tau_g = L_g + alpha, math.sqrt(6.0 * size * L_g) + (4.0 * size + 1.0) * root
        theta = min(math.sqrt(2.0 * size * alpha / (3.0 * L_g)), 0.5)
        spread = 3.0 * L_g * theta**2 / size + theta * alpha / size
        C = spread / (1.0 + theta) + M * (0.5 + 1.0 / (size * (1.0 + theta)))
        return Assumption4(tau_g, 2.0, C)
    # sum_i sqrt(beta_i + alpha) <= n sqrt(L_g-bar) + n sqrt(alpha), and L_g <= n^2 L_g-bar
    per_step = 2.0 if setting == "values" else 1.0
    tau_g = per_step * (size * (math.sqrt(L_g) + root) + root)
    return Assumption4(tau_g, 2.0, 0.5 * (size**2 * L_g + 2.0 * alpha))


# Paper: Lemma 1
def lemma_1(
    tau_g: float,
    *,
    L: float,
    L_h: float,
    L_g: float,
    distance: float,
    accuracy: float,
    delta: float,
    C: float,
    C_0: float = 1.0,
) -> int:
    r"""Lemma 1: basic calls of an inner run until (17) holds with probability 1 - delta.

    (17) is <grad phi(v), v - v*> <= accuracy and \|v - v*\|^2 <= accuracy/L_g, `distance` is
    \|v^0 - v*\|. The number is C_0 tau_g/sqrt(L + L_h) ln(2 C M distance^2/(delta accuracy
    (L + L_h))) with M = L_g + L + L_h, the smoothness of phi.

    # Deviation: the paper prints 2 C L_g; its own bound M <= 3 L_g gives 6 C L_g.
    """
    alpha = L + L_h
    inside = 2.0 * C * (L_g + alpha) * distance**2 / (delta * accuracy * alpha)
    return max(1, math.ceil(C_0 * tau_g / math.sqrt(alpha) * math.log(max(inside, 1.0))))


# Paper: Theorem 2
# Paper: Theorem 3
# Paper: Definition 1
# Paper: Lemma 4
def theorem_2(
    K: int,
    *,
    L: float,
    L_h: float,
    gap: float,
    distance: float,
    accuracy: float = 0.0,
    mu: float = 0.0,
) -> Middle:
    r"""Theorem 2: how far K steps of GMCO are from the minimiser zeta* of F_{L,zeta^0}.

    F(zeta^K) - F* <= exp(-K (mu + L)/(4 L_h)) gap + 4 L_h/(mu + L) accuracy and
    \|zeta^K - zeta*\|^2/2 <= L_h/(2 (mu + L)) distance^2 + 4 L_h/(mu + L)^2 accuracy, for K >= 1.
    `gap` is F(zeta^0) - F*, `distance` is \|zeta^0 - zeta*\|, and `accuracy` is eps~ of the inner
    runs: <grad phi(v), v - v*> <= eps~, 0 for exact ones.

    With L = 0 this is Theorem 3. Lemma 4 and Definition 1 are steps of its proof.

    # Deviation: on R^n only an exact minimiser satisfies Definition 1; the proof uses no more than
    # phi(v) <= phi(u) + eps~ for all u, which (17) gives. For mu + L > 2 L_h, where the theorem
    # makes no statement, the minimum of its proof is at alpha = 1, and the factor of a step is
    # L_h/(mu + L). The proof of the second inequality says that F is L_h-smooth, which it need not
    # be; the third inequality of the proof at x = x* gives the same bound for K >= 1.
    """
    rate, series = _contraction(L + mu, L_h)
    middle = math.exp(-K * rate) * gap + series * accuracy
    half = L_h / (2.0 * (mu + L)) * distance**2 + series / (mu + L) * accuracy
    return Middle(middle, math.sqrt(2.0 * half))


# Paper: Lemma 2
def lemma_2(L: float, L_h: float, L_f: float, delta: float = 0.05) -> Sure:
    r"""Lemma 2: K_GMCO, steps of GMCO until the Monteiro-Svaiter test with sigma = 1/2 holds.

    1 + (4 L_h/L) ln(2 (3 L + 2 L_f)^2 L_h/L^3), where the inner runs have the accuracy (22), each
    with probability 1 - delta/K_GMCO.

    # Deviation: the paper loses the 4 of exp(-K L/(4 L_h)) between Theorem 2 and K_GMCO, and uses
    # F(zeta^0) - F* <= L_h \|zeta^0 - zeta*\|^2/2, which holds after the first step only: hence the
    # 1. For L > 2 L_h the factor is that of `theorem_2`.
    """
    rate, _ = _contraction(L, L_h)
    steps = 1.0 + max(0.0, math.log(2.0 * (3.0 * L + 2.0 * L_f) ** 2 * L_h / L**3)) / rate
    return Sure(steps, delta / steps)


# Paper: equation (22)
def inner_accuracy(L: float, L_h: float, L_f: float, distance: float) -> float:
    r"""Eq. (22): the sufficient inner accuracy, L^4 \|zeta^0 - zeta*\|^2/(16 L_h (3L + 2L_f)^2).

    `distance` is \|zeta^0 - zeta*\|, from the start of GMCO to the minimiser of its problem.
    """
    _, series = _contraction(L, L_h)
    return L**3 / (4.0 * series * (3.0 * L + 2.0 * L_f) ** 2) * distance**2


# Paper: Lemma 3
def lemma_3(L: float, *, eps: float, R: float = 1.0, mu: float = 0.0, delta: float = 0.05) -> Sure:
    r"""Lemma 3: T_SAE, iterations of SAE or R-SAE to accuracy eps with probability 1 - delta.

    Convex: sqrt(2 L R^2/eps), from f(y^N) - f* <= 2 L R^2/N^2. Strongly convex:
    N_0 = ceil(sqrt(8 L/mu)) iterations per stage and log2(mu R^2/eps) stages. Each iteration has to
    pass the Monteiro-Svaiter test with probability 1 - delta/T_SAE.

    # Deviation: the paper prints sqrt(L R^2/eps) and ln; its inequalities give these.
    """
    if mu == 0.0:
        steps = max(1.0, math.sqrt(2.0 * L * R**2 / eps))
    else:
        stages = max(1, math.ceil(math.log2(mu * R**2 / eps)))
        steps = float(math.ceil(math.sqrt(8.0 * L / mu)) * stages)
    return Sure(steps, delta / steps)


# Paper: equation (6)
def C_1(*, L: float, L_h: float, L_g: float, L_f: float, C: float) -> float:
    r"""The constant C_1 of equation (6), from (22) and (26).

    2 C (L_g + L + L_h)/(L + L_h) \|v^0 - v*\|^2/eps_M with (26) for the distance and (22) for
    eps_M: 2 (4 L_h/L) \|zeta^0 - zeta*\|^2/eps_M + 2 (sqrt(32 L_h/L^2) + sqrt(1/L_g))^2.

    # Deviation: the paper prints 2 C (32 L_h^2 L_g (3 L + 2 L_f)^2 + (8 L_h L_g + L^2) L^3)/(L^4
    # (L + L_h)), in which a factor 1/L is missing (the units do not match) and (a + b)^2 <= 2 a^2 +
    # 2 b^2 was not used throughout.
    """
    per_distance = 1.0 / inner_accuracy(L, L_h, L_f, 1.0)
    near = max(1.0, L_h / L)  # of (21): GMCO does not move away from zeta* where L > L_h
    squared = 8.0 * near * per_distance
    squared += 2.0 * (math.sqrt(32.0 * L_h) / L + math.sqrt(1.0 / L_g)) ** 2
    return 2.0 * C * (L_g + L + L_h) / (L + L_h) * squared


# Paper: equation (6)
def inner_calls(
    tau_g: float,
    *,
    L: float,
    L_h: float,
    L_g: float,
    eps: float,
    mu: float = 0.0,
    R: float = 1.0,
    delta: float = 0.05,
    C: float,
    C_0: float = 1.0,
) -> int:
    r"""Eq. (6): N_M, the number of basic calls of every inner run.

    C_0 tau_g/sqrt(L + L_h) ln(C_1 K_GMCO T_SAE/delta), with K_GMCO of `lemma_2`, T_SAE of
    `lemma_3` and L_f = L_h + L_g.

    # Deviation: the paper prints the orders L_h R/sqrt(eps L) and, for mu > 0, L_h/sqrt(mu L) of
    # K_GMCO T_SAE, and leaves their logarithms to the constants.
    """
    L_f = L_h + L_g
    K = lemma_2(L, L_h, L_f).steps
    T = lemma_3(L, eps=eps, R=R, mu=mu).steps
    inside = C_1(L=L, L_h=L_h, L_g=L_g, L_f=L_f, C=C) * K * T / delta
    return max(1, math.ceil(C_0 * tau_g / math.sqrt(L + L_h) * math.log(max(inside, 1.0))))


def _contraction(strong: float, L_h: float) -> tuple[float, float]:
    """Theorem 2: (rate, series), errors after K steps being exp(-K rate) and series eps~."""
    if strong <= 2.0 * L_h:
        return strong / (4.0 * L_h), 4.0 * L_h / strong
    return math.log(strong / L_h), strong / (strong - L_h)

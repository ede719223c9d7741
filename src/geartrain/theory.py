r"""The paper's theory as code: one function a theorem, corollary, lemma or table row.

O(.) hides a constant; here it is 1 unless the proof gives one, so that the numbers compare methods
and scale as the theorems say, and are not predictions of a single run. Names:

=========  ===========  =====================================================
symbol     name         meaning
=========  ===========  =====================================================
L_h, L_g   same         smoothness of h and g; in the coordinate setting L_g is
                        L_g-bar = (mean_i sqrt(beta_i))^2, in the finite-sum
                        setting L_g-hat = max_k L_{g_k}
L          same         parameter of the envelope F_{L,x} of SAE
L_f        same         smoothness of f, at most L_h + L_g
mu         same         strong convexity of f, 0 in the convex case
R          same         bound on \|x^0 - x*\|
eps        same         accuracy in f
delta      same         probability of failure
kappa_g    same         basic calls that make a gradient of g: 1, n or m
tau_g      same         of Assumption 4: the inner method makes about
                        tau_g/sqrt(alpha) ln(1/accuracy) calls
=========  ===========  =====================================================
"""

from __future__ import annotations

import math

from geartrain.oracles.validation import as_nonnegative, as_number, as_positive

SETTINGS = ("full", "coordinate", "finite-sum")

Calls = dict[str, float]


def outer_iterations(L: float, *, eps: float, R: float = 1.0, mu: float = 0.0) -> float:
    r"""Step 3 of the proof of Theorem 1: T_SAE, iterations of SAE or R-SAE to accuracy eps.

    Convex: sqrt(2 L R^2/eps), from f(y^N) - f* <= 2 L R^2/N^2. Strongly convex:
    N_0 = sqrt(8 L/mu) iterations a stage and log2(mu R^2/eps) stages.

    # Deviation: the paper prints sqrt(L R^2/eps) and ln; its inequalities give these.
    """
    if mu == 0.0:
        return max(1.0, math.sqrt(2.0 * L * R**2 / eps))
    return math.sqrt(8.0 * L / mu) * max(1.0, math.log2(mu * R**2 / eps))


def middle_steps(L: float, L_h: float, L_f: float) -> float:
    r"""Lemma 2: K_GMCO, steps of GMCO until the Monteiro-Svaiter test with sigma = 1/2 holds.

    (4 L_h/L) ln(2 (3 L + 2 L_f)^2 L_h/L^3).

    # Deviation: the paper loses the 4 of exp(-K L/(4 L_h)) between Theorem 2 and K_GMCO. In
    # practice one to three steps are enough.
    """
    return 4.0 * L_h / L * math.log(2.0 * (3.0 * L + 2.0 * L_f) ** 2 * L_h / L**3)


def inner_accuracy(L: float, L_h: float, L_f: float, distance: float) -> float:
    r"""Eq. (22): the sufficient inner accuracy, L^4 \|zeta^0 - zeta*\|^2/(16 L_h (3L + 2L_f)^2).

    `distance` is \|zeta^0 - zeta*\|, from the start of GMCO to the minimiser of its problem.
    """
    return L**4 / (16.0 * L_h * (3.0 * L + 2.0 * L_f) ** 2) * distance**2


def inner_calls(
    tau_g: float,
    *,
    L: float,
    L_h: float,
    mu: float = 0.0,
    eps: float | None = None,
    R: float = 1.0,
    delta: float = 0.05,
    C_0: float = 1.0,
    C_1: float = 1.0,
) -> int:
    r"""Eq. (6): N_M, the a-priori number of basic calls of an inner run.

    C_0 tau_g/sqrt(L + L_h) ln(C_1 L_h R/(delta sqrt(eps L))) for mu = 0, and
    C_0 tau_g/sqrt(L + L_h) ln(C_1 L_h/(delta sqrt(mu L))) for mu > 0. C_1 of the paper depends
    on the constants; the default 1 makes this a lower estimate.
    """
    if mu > 0.0:
        inside = C_1 * L_h / (delta * math.sqrt(mu * L))
    elif eps is None:
        raise ValueError("inner_calls needs eps where mu = 0")
    else:
        inside = C_1 * L_h * R / (delta * math.sqrt(eps * L))
    return max(1, math.ceil(C_0 * tau_g / math.sqrt(L + L_h) * max(1.0, math.log(inside))))


def theorem_1(
    *,
    L_h: float,
    tau_g: float,
    kappa_g: float,
    eps: float,
    R: float = 1.0,
    mu: float = 0.0,
    delta: float = 0.05,
    L: float | None = None,
) -> Calls:
    r"""Theorem 1: calls of O_h and of the basic oracle O_g, with L = L_h unless given.

    h: T (1 + L_h/L); g: T (kappa_g + (L_h/L) tau_g/sqrt(L + L_h) ln(.)), with T sqrt(L R^2/eps)
    and ln(R/(delta sqrt eps)) for mu = 0, sqrt(L/mu) ln(mu R^2/eps) and ln(1/delta) for mu > 0.
    """
    L = L_h if L is None else L
    if mu > 0.0:
        T = math.sqrt(L / mu) * _log(mu * R**2 / eps)
        log = _log(1.0 / delta)
    else:
        T = math.sqrt(L * R**2 / eps)
        log = _log(R / (delta * math.sqrt(eps)))
    middle = L_h / L
    return {
        "h": T * (1.0 + middle),
        "g": T * (kappa_g + middle * tau_g / math.sqrt(L + L_h) * log),
    }


def corollary_1(*, L_h: float, L_g: float, eps: float, R: float = 1.0, mu: float = 0.0) -> Calls:
    """Corollary 1, full gradients: sqrt(L_h ..) calls of h, sqrt(L_g ..) of g."""
    factor = _factor(mu, eps, R)
    return {"h": math.sqrt(L_h) * factor, "g": math.sqrt(L_g) * factor}


def corollary_2(
    *,
    L_h: float,
    L_g: float,
    n: int,
    eps: float,
    R: float = 1.0,
    mu: float = 0.0,
    delta: float = 0.05,
) -> Calls:
    """Corollary 2, partial derivatives of g: n sqrt(L_g-bar ..) ln(1/delta) of them."""
    factor = _factor(mu, eps, R)
    return {"h": math.sqrt(L_h) * factor, "g": n * math.sqrt(L_g) * factor * _log(1.0 / delta)}


def corollary_3(
    *,
    L_h: float,
    L_g: float,
    m: int,
    eps: float,
    R: float = 1.0,
    mu: float = 0.0,
    delta: float = 0.05,
) -> Calls:
    """Corollary 3, gradients of summands: sqrt(m L_g-hat ..), with ln(1/delta) for mu > 0."""
    factor = _factor(mu, eps, R)
    log = _log(1.0 / delta) if mu > 0.0 else 1.0
    return {"h": math.sqrt(L_h) * factor, "g": math.sqrt(m * L_g) * factor * log}


def calls(
    setting: str,
    *,
    L_h: float,
    L_g: float,
    mu: float = 0.0,
    eps: float,
    R: float = 1.0,
    delta: float = 0.05,
    n: int | None = None,
    m: int | None = None,
    L: float | None = None,
) -> Calls:
    r"""Calls of h and of g's basic oracle that (R-)SAE needs.

    By Corollaries 1 to 3, or, where the parameter L of the envelope is given, by Theorem 1.

    Parameters
    ----------
    setting : {"full", "coordinate", "finite-sum"}
        What g is asked: gradients, partial derivatives (needs `n`) or gradients of one of `m`
        summands.
    L_h, L_g : float
        Smoothness; see the head of this module for L_g in each setting.
    mu : float
        Strong convexity of f; 0 for the convex case.
    eps, R, delta : float
        Accuracy in f, bound on the distance to the solution, probability of failure.
    n, m : int, optional
        Dimension, number of summands.
    L : float, optional
        Parameter of the envelope.

    Examples
    --------
    >>> import geartrain as gt
    >>> few = gt.theory.calls("full", L_h=1, L_g=1e4, mu=1e-2, eps=1e-6)
    >>> round(few["g"] / few["h"])
    100
    """
    _check(setting, L_h, L_g, mu, eps, R, delta, n, m)
    if L is not None:
        as_positive(L, "L")
        kappa, tau = _basic(setting, L_g, n, m)
        return theorem_1(L_h=L_h, tau_g=tau, kappa_g=kappa, eps=eps, R=R, mu=mu, delta=delta, L=L)
    if setting == "full":
        return corollary_1(L_h=L_h, L_g=L_g, eps=eps, R=R, mu=mu)
    if setting == "coordinate":
        assert n is not None
        return corollary_2(L_h=L_h, L_g=L_g, n=n, eps=eps, R=R, mu=mu, delta=delta)
    assert m is not None
    return corollary_3(L_h=L_h, L_g=L_g, m=m, eps=eps, R=R, mu=mu, delta=delta)


def compare(
    *,
    L_h: float,
    L_g: float,
    mu: float = 0.0,
    eps: float,
    R: float = 1.0,
    delta: float = 0.05,
    n: int | None = None,
    m: int | None = None,
) -> dict[str, Calls]:
    r"""FGM, AGS, accelerated coordinate descent, Katyusha and SAE side by side (Section 2).

    Calls are in basic calls of each method's own oracles: a row "h" that says "partial
    derivatives" or "summands" asks h for those. Coordinate rows need `n`, finite-sum rows `m`;
    L_g is then read as L_g-bar or L_g-hat.

    - FGM: sqrt((L_h + L_g) ..) of both.
    - AGS: sqrt(L_h ..) of h, sqrt(L_g ..) of g.
    - ACD: n sqrt((L_h + L_g) ..) partial derivatives of both.
    - Katyusha on (1/m) sum (h + g_k): sqrt(m (L_h + L_g) ..) gradients of h and of summands.
    - SAE: Corollaries 1 to 3.
    """
    _check("full", L_h, L_g, mu, eps, R, delta, n, m)
    factor = _factor(mu, eps, R)
    both = math.sqrt(L_h + L_g) * factor
    out: dict[str, Calls] = {
        "FGM": {"h": both, "g": both},
        "AGS": corollary_1(L_h=L_h, L_g=L_g, eps=eps, R=R, mu=mu),
        "SAE": corollary_1(L_h=L_h, L_g=L_g, eps=eps, R=R, mu=mu),
    }
    if n is not None:
        out["ACD"] = {"h": n * both, "g": n * both}
        out["SAE coordinate"] = corollary_2(L_h=L_h, L_g=L_g, n=n, eps=eps, R=R, mu=mu, delta=delta)
    if m is not None:
        whole = math.sqrt(m) * both
        out["Katyusha"] = {"h": whole, "g": whole}
        out["SAE finite-sum"] = corollary_3(L_h=L_h, L_g=L_g, m=m, eps=eps, R=R, mu=mu, delta=delta)
    return out


def table_1(
    *, m: int, n: int, s: float, lambda_max: float, eps: float, R: float = 1.0
) -> dict[str, float]:
    r"""Table 1: arithmetic operations for the kernel SVM of Section 5.1.

    FGM (R/eps) sqrt(s) (m s + n^2); AGS (R/eps) sqrt(s) m s + sqrt(lambda_max R^2/eps) n^2;
    SAE (R/eps) sqrt(s m) s + sqrt(lambda_max R^2/eps) n^2. s is the number of nonzeros in a row
    of A, lambda_max the largest eigenvalue of C = lambda K.
    """
    kernel = math.sqrt(lambda_max * R**2 / eps) * n**2
    return {
        "FGM": R / eps * math.sqrt(s) * (m * s + n**2),
        "AGS": R / eps * math.sqrt(s) * m * s + kernel,
        "SAE": R / eps * math.sqrt(s * m) * s + kernel,
    }


def table_2(*, n: int, p: int, s: float, eps: float, R: float = 1.0) -> dict[str, float]:
    r"""Table 2: arithmetic operations for the log-density problem of Section 5.2.

    FGM sqrt(n R^2/eps)(p s + n^2); FCD n sqrt(R^2/eps)(p + n); SAE sqrt(n R^2/eps) p s +
    n sqrt(R^2/eps) n. s is the number of nonzeros in a row of A.
    """
    root = math.sqrt(R**2 / eps)
    return {
        "FGM": math.sqrt(n) * root * (p * s + n**2),
        "FCD": n * root * (p + n),
        "SAE": math.sqrt(n) * root * p * s + n * root * n,
    }


def _factor(mu: float, eps: float, R: float) -> float:
    """What multiplies sqrt(L) in the corollaries: ln(mu R^2/eps)/sqrt(mu) or sqrt(R^2/eps).

    # Deviation: the corollaries print ln(1/eps), short for the ln(mu R^2/eps) of Theorem 1.
    """
    if mu > 0.0:
        return _log(mu * R**2 / eps) / math.sqrt(mu)
    return math.sqrt(R**2 / eps)


def _log(ratio: float) -> float:
    """A logarithm that never makes a bound vanish."""
    return max(1.0, math.log(ratio))


def _basic(setting: str, L_g: float, n: int | None, m: int | None) -> tuple[float, float]:
    """(kappa_g, tau_g) of Assumptions 3 and 4 in the three settings."""
    if setting == "full":
        return 1.0, math.sqrt(L_g)
    if setting == "coordinate":
        assert n is not None
        return float(n), n * math.sqrt(L_g)
    assert m is not None
    return float(m), math.sqrt(m * L_g)


def _check(
    setting: str,
    L_h: float,
    L_g: float,
    mu: float,
    eps: float,
    R: float,
    delta: float,
    n: int | None,
    m: int | None,
) -> None:
    if setting not in SETTINGS:
        raise ValueError(f"unknown setting {setting!r}; choose one of {', '.join(SETTINGS)}")
    for name, value in (("L_h", L_h), ("L_g", L_g), ("eps", eps), ("R", R)):
        as_positive(value, name)
    as_nonnegative(mu, "mu")
    if mu > L_h + L_g:
        raise ValueError(f"mu = {mu:g} exceeds L_h + L_g = {L_h + L_g:g}: no function has that")
    if not 0.0 < as_number(delta, "delta") < 1.0:
        raise ValueError(f"delta must be between 0 and 1, got {delta:g}")
    for name, size, wanted in (("n", n, "coordinate"), ("m", m, "finite-sum")):
        if size is None:
            if setting == wanted:
                raise ValueError(f"setting {wanted!r} needs {name}=")
        elif size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")

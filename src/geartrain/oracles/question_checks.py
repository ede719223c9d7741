"""How the answers to each question are checked, for `geartrain.check_term`.

There is one function per question, and the table of questions refers to them. The first line of a
docstring is the statement that is checked; where it does not hold, a sentence is added to the
problems of the `geartrain.oracles.checker.Checker` c.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from geartrain.oracles.vectors import Vector, norm

if TYPE_CHECKING:
    from geartrain.oracles.checker import Checker

EPS = float(np.finfo(np.float64).eps)
# An answer whose errors exceed this part of its size is called noisy. Single precision stays below.
NOISY = 3e-6
# With more summands than this their mean takes too long.
MOST_COMPONENTS = 20_000
# Steps of the test of Taylor's formula along two directions, in units of the scale of x.
_STEPS = ((1e-2, 1e-5, 1e-8), (1e-3, 1e-6))
# Steps of the differences of gradients that products with the Hessian are compared with.
_PRODUCT_STEPS = (1e-7, 1e-4)
# A proximal step may be the result of an iteration, which ends at about this relative error.
_PROX_ERROR = 1e-6
# A proximal step is short enough to show a subgradient if its weight grows by this factor.
_STEEP = 1e6


def check_grad(c: Checker) -> None:
    """The gradient is a finite vector, and it is not noisy."""
    c.checked.append("shape of the gradient")
    if c.known.isdisjoint(("grad", "value_and_grad")):
        if "component" in c.known:
            _examine(c, "component(x, k)", c.asked.component(c.x, 0), (c.n,))
        _examine(c, "the gradient", c.grad(c.x), (c.n,))
    _first_look(c)
    c.checked.append("noise")
    c.measure_noise()


def check_value(c: Checker) -> None:
    """The value is a finite number, and the gradient is its derivative."""
    if not c.has("grad"):
        if not c.may_be_infinite:
            _first_look(c)
            c.checked.append("noise")
            c.measure_noise()
        return
    c.checked.append("Taylor formula of value and gradient")
    f0, g0 = c.value(c.x), c.grad(c.x)
    wrong: list[tuple[float, float, float]] = []  # step, error of the difference, Taylor error
    slopes: list[tuple[float, float]] = []  # of the values and of the gradient, one per direction
    for steps in _STEPS:
        d = c.direction()
        slope, seen = float(g0 @ d), []
        for t in c.scale * np.array(steps):
            up, down = c.value(c.x + t * d), c.value(c.x - t * d)
            ends = [float(c.grad(c.x + s * d) @ d) for s in (t, -t)]
            # The integral of the slope over [-t, t] by Simpson's rule, and by the trapezoidal one.
            simpson, trapezoid = t / 3.0 * (sum(ends) + 4.0 * slope), t * sum(ends)
            error = abs(up - down - simpson)
            lost = 40.0 * (c.value_noise + EPS * (abs(up) + abs(down))) + 20.0 * t * c.grad_noise
            if error > 2.0 * abs(simpson - trapezoid) + lost + 1e-7 * abs(t * slope):
                wrong.append((t, error, abs(up - f0 - t * slope)))
                seen = [((up - down) / (2.0 * t), slope)]
        slopes += seen
    if len(wrong) < 2:
        return
    steps_wrong, errors, taylor = np.log(np.maximum(np.array(wrong).T, 1e-300))
    if np.polyfit(steps_wrong, errors, 1)[0] < 0.5:  # the error does not become smaller with t
        jump, size = float(np.exp(errors.max())), max(abs(f0), norm(g0) * c.scale)
        if jump <= max(NOISY * size, 4.0 * c.stated_noise):
            return
        c.noisy = True
        c.problems.append(
            f"the value is noisy: it jumps by about {jump:.1e} between close points, a relative "
            f"noise of {jump / size:.0e}; state it, e.g. Term(..., noise=...)"
        )
        return
    rate = np.polyfit(steps_wrong, taylor, 1)[0]
    by_value, by_gradient = slopes[0]
    ratios = [b / a for a, b in slopes if a != 0.0]
    factor = ""
    if len(ratios) == 2 and np.ptp(ratios) <= 1e-3 * abs(ratios[0]):
        factor = f": it is {ratios[0]:.4g} times what it should be, in every direction"
    c.problems.append(
        "the gradient does not fit the value: the Taylor error falls like "
        f"t^{rate:.2f} instead of t^2; along a random direction the value changes at "
        f"the rate {by_value:.6g} but the gradient says {by_gradient:.6g}{factor}"
    )


def check_value_and_grad(c: Checker) -> None:
    """Value and gradient of the fused answer are those of the separate answers."""
    if "value_and_grad" not in c.known:
        return
    value, grad = c.at_x["value_and_grad"]
    if "value" in c.known:
        c.checked.append("value_and_grad against value")
        alone = float(c.at_x["value"])
        if abs(value - alone) > 1e-9 * abs(alone) + 40.0 * (c.value_noise + EPS * abs(alone)):
            c.problems.append(
                f"value_and_grad gives the value {value:.9g} but value gives {alone:.9g}"
            )
    if "grad" in c.known:
        c.checked.append("value_and_grad against grad")
        gap = norm(grad - c.at_x["grad"])
        if gap > 1e-9 * norm(c.at_x["grad"]) + c.grad_error(c.x):
            c.problems.append(
                f"value_and_grad and grad give different gradients: they differ by {gap:.3g}"
            )


def check_component(c: Checker) -> None:
    """The mean of the gradients of the summands is the gradient."""
    m = c.term.n_components
    if m > MOST_COMPONENTS or c.known.isdisjoint(("grad", "value_and_grad")):
        return
    c.checked.append("mean of components")
    parts = np.array(
        [_examine(c, "component(x, k)", c.asked.component(c.x, k), (c.n,)) for k in range(m)]
    )
    grad = c.grad(c.x)
    gap, size = norm(parts.mean(axis=0) - grad), norm(grad)
    typical = float(np.linalg.norm(parts, axis=1).mean())
    if not gap <= 1e-9 * (size + typical) + c.grad_error(c.x):
        of_a_sum = norm(parts.sum(axis=0) - grad) <= 1e-6 * (size + m * typical)
        c.problems.append(
            "the mean of the components is not the gradient: they differ by "
            f"{gap:.3g} (gradient norm {size:.3g}); "
            + (
                f"their sum is: multiply component by n_components = {m}, or "
                if of_a_sum and m > 1
                else ""
            )
            + "component(x, k) must be the gradient of one summand of a mean, not of a sum"
        )


def check_coord(c: Checker) -> None:
    """The partial derivatives are the entries of the gradient."""
    if c.known.isdisjoint(("grad", "value_and_grad")):
        return
    c.checked.append("partial derivatives")
    grad = c.grad(c.x)
    allowed = 1e-9 * float(np.abs(grad).max()) + c.grad_error(c.x)
    for i in c.rng.choice(c.n, size=min(c.n, 20), replace=False):
        partial = float(c.asked.coord(c.x, int(i)))
        if not abs(partial - grad[i]) <= allowed:
            c.problems.append(
                f"coord(x, {i}) = {partial:.9g} but the gradient's entry is {grad[i]:.9g}"
            )
            return


def check_products(c: Checker) -> None:
    """The products are those of a symmetric matrix, and the gradient changes along with them."""
    if "products" in c.known:
        _compare_products(c, "products", c.asked.products)


def check_second_order(c: Checker) -> None:
    """Its three answers are value, gradient and products."""
    if "second_order" not in c.known:
        return
    c.checked.append("second_order against value and gradient")
    D = np.column_stack([c.direction(), c.direction()])
    answer = c.asked.second_order(c.x, D)
    if not isinstance(answer, (tuple, list)) or len(answer) != 3:
        c.problems.append("second_order must answer with a triple (value, gradient, products)")
        return
    value, grad, P = answer
    if c.has("value"):
        alone = c.value(c.x)
        if abs(value - alone) > 1e-9 * abs(alone) + 40.0 * (c.value_noise + EPS * abs(alone)):
            c.problems.append(f"second_order gives the value {value:.9g}, expected {alone:.9g}")
    if c.has("grad"):
        gap = norm(_examine(c, "the gradient of second_order", grad, (c.n,)) - c.grad(c.x))
        if gap > 1e-9 * norm(c.grad(c.x)) + c.grad_error(c.x):
            c.problems.append(f"the gradient of second_order is wrong: it differs by {gap:.3g}")
    _examine(c, "second_order(x, D)", P, D.shape)
    if "products" not in c.known:
        _compare_products(c, "second_order", lambda x, D: c.asked.second_order(x, D)[2])


def _compare_products(c: Checker, name: str, ask: Callable[[Vector, Vector], Any]) -> None:
    c.checked.append(f"{name} against differences of gradients")

    def products(x: Vector, D: Vector) -> Vector:
        return _examine(c, f"{name}(x, D)", ask(x, D), D.shape)

    D = np.column_stack([c.direction(), c.direction()])
    P = products(c.x, D)
    size = norm(P.ravel())
    near = products(c.x * (1.0 + 8.0 * EPS * c.rng.standard_normal(c.n)), D)
    lost = 20.0 * norm((near - P).ravel()) + 40.0 * EPS * size
    if c.has("grad"):  # the curvature that the size of the gradient suggests
        lost += 40.0 * EPS * norm(c.grad(c.x)) / c.scale
    cross = D.T @ P
    if abs(cross[0, 1] - cross[1, 0]) > 1e-6 * size + lost:
        c.problems.append(
            f"{name} is not the product with a symmetric matrix: <d, H e> = {cross[0, 1]:.6g} but "
            f"<e, H d> = {cross[1, 0]:.6g}"
        )
    if not c.has("grad") or c.noisy:
        return
    d = D[:, :1]

    def rate(t: float) -> Vector:
        return (c.grad(c.x + t * d[:, 0]) - c.grad(c.x - t * d[:, 0])) / (2.0 * t)

    for t in c.scale * np.array(_PRODUCT_STEPS):
        ends = sum(products(c.x + s * d[:, 0], d)[:, 0] for s in (t, -t))
        # The mean of H d over [-t, t] by Simpson's rule, and by the trapezoidal one.
        simpson, trapezoid = (ends + 4.0 * P[:, 0]) / 6.0, ends / 2.0
        gap = norm(rate(t) - simpson)
        allowed = 2.0 * norm(simpson - trapezoid) + 1e-6 * size + lost + c.grad_error(c.x) / t
        steady = t == c.scale * _PRODUCT_STEPS[0] or (
            norm(rate(t) - rate(10.0 * t)) <= 0.1 * norm(rate(t))  # no bend in between
        )
        if gap > allowed and steady:
            c.problems.append(
                f"{name} does not fit the gradient: along a direction of length 1 the gradient "
                f"changes at the rate {norm(rate(t)):.6g}, the product has the norm "
                f"{norm(P[:, 0]):.6g}, and they differ by {gap:.3g}"
            )
        if gap > allowed or allowed < 0.1 * size:
            return  # the longer step is looked at only if rounding hides the shorter one


def check_prox(c: Checker) -> None:
    """prox(u, alpha) minimises term(v) + alpha/2 |v - u|^2, and is firmly non-expansive."""
    c.checked.append("prox")
    alpha = 2.5 * float(getattr(c.term, "L", None) or 1.0)
    u, v = c.somewhere(), c.somewhere()

    def prox(u: Vector, alpha: float) -> Vector:
        return _examine(c, "prox(u, alpha)", c.asked.prox(u, alpha), (c.n,))

    p, q = prox(u, alpha), prox(v, alpha)
    if getattr(c.term, "convex", True):
        inner, square = float((p - q) @ (u - v)), float((p - q) @ (p - q))
        if square - inner > _PROX_ERROR * norm(u - v) * max(norm(u - v), norm(p - q)):
            c.problems.append(
                "prox is not firmly non-expansive, as the proximal step of a convex term is: "
                f"|p - q|^2 = {square:.6g} exceeds <p - q, u - v> = {inner:.6g}"
            )
    how = _is_no_prox(c, prox, u, alpha)
    if not how:
        _check_residual(c, prox, u, alpha)
        _check_separable(c, prox, u, alpha)
        return
    if not _is_no_prox(c, lambda u, alpha: prox(u, 1.0 / alpha), u, alpha):
        how += (
            "; prox(u, 1/alpha) does: alpha was taken for a step length, but here it is the weight "
            "of |v - u|^2/2, the inverse of a step length"
        )
    c.problems.append(f"prox(u, alpha) does not minimise term(v) + alpha/2 |v - u|^2: {how}")


def _check_residual(
    c: Checker, prox: Callable[[Vector, float], Vector], u: Vector, alpha: float
) -> None:
    """residual(p, d) is the element of d + dpsi(p) of least norm, p = prox(u, alpha)."""
    if not callable(getattr(c.term, "residual", None)):
        return
    c.checked.append("residual")
    p, d = prox(u, alpha), c.direction() * alpha * c.scale
    w = alpha * (u - p)  # in dpsi(p)
    r = _examine(c, "residual(v, d)", c.term.residual(p, d), (c.n,))
    lost = _PROX_ERROR * (norm(d) + norm(w))
    # r - d is in dpsi(p) if and only if the proximal step from p + (r - d)/alpha leads to p.
    off = norm(prox(p + (r - d) / alpha, alpha) - p)
    if alpha * off > lost:
        c.problems.append(
            f"residual(v, d) is not in d + the subdifferential at v: the proximal step from "
            f"v + (residual - d)/alpha ends {off:.3g} away from v"
        )
        return
    # alpha (p - prox(p - d/alpha, alpha)) tends to the element of least norm as alpha grows.
    steep = alpha * _STEEP
    least = norm(steep * (p - prox(p - d / steep, steep)))
    if norm(r) > least + 1e-3 * (norm(d) + norm(w)):
        c.problems.append(
            f"residual(v, d) is not the element of least norm of d + the subdifferential at v: its "
            f"norm is {norm(r):.6g}, and there is one of norm {least:.6g}"
        )


def _check_separable(
    c: Checker, prox: Callable[[Vector, float], Vector], u: Vector, alpha: float
) -> None:
    """Coordinates of a proximal step depend on the same coordinates of u alone."""
    if not getattr(c.term, "separable", False) or c.n < 2:
        return
    c.checked.append("separable")
    first = np.arange(c.n) < (c.n + 1) // 2
    p, q = prox(u, alpha), prox(np.where(first, -u, u), alpha)
    q_far = prox(np.where(first, 9.0 * u, u), alpha)
    off = max(norm((q - p)[~first]), norm((q_far - p)[~first]))
    if off > _PROX_ERROR * (norm(p) + norm(u)):
        c.problems.append(
            "separable = True does not hold: other coordinates of prox(u, alpha) change by "
            f"{off:.3g} where the first half of u is changed"
        )


def _is_no_prox(
    c: Checker, prox: Callable[[Vector, float], Vector], u: Vector, alpha: float
) -> str:
    """Why `prox` is no proximal step of the term; empty if nothing speaks against it."""
    p = prox(u, alpha)
    if c.has("grad"):
        # grad term(p) + alpha (p - u) = 0
        size = norm(c.grad(p)) + alpha * (norm(p) + norm(u))
        left = norm(c.grad(p) + alpha * (p - u))
        if left > _PROX_ERROR * size + c.grad_error(p):
            return f"with alpha = {alpha:.3g} a gradient of norm {left:.3g} is left (of {size:.3g})"
        return ""
    if c.has("value"):
        how = _contradicting_value(c, prox, u, alpha, p)
        if how:
            return how
    # The resolvent identity: p is also the proximal step for beta of (alpha/beta) (u - p) + p.
    beta = alpha / 4.0
    gap = norm(prox(p + (alpha / beta) * (u - p), beta) - p)
    if getattr(c.term, "convex", True) and gap > _PROX_ERROR * (norm(p) + norm(u)):
        return (
            f"the answers for alpha = {alpha:.3g} and {beta:.3g} are not steps of one function: p "
            f"and prox(p + (alpha/beta) (u - p), beta) differ by {gap:.3g}"
        )
    return ""


def _contradicting_value(
    c: Checker, prox: Callable[[Vector, float], Vector], u: Vector, alpha: float, p: Vector
) -> str:
    """A value that p = prox(u, alpha) rules out, in words; empty if none is found.

    alpha (u - p) is a subgradient of a convex term at p. Of another term at least term(v) +
    alpha/2 |v - u|^2 is not smaller than at p.
    """
    value = float(c.asked.value(p))
    if not np.isfinite(value):
        return f"the value at prox(u, alpha) is {value}"
    convex = getattr(c.term, "convex", True)
    around = c.direction() * max(norm(u - p), 1e-3 * c.scale)
    points = [p + s * (u - p) for s in (1.0, 0.1, -0.1)] + [p + around, p - around]
    points += [s * p for s in (0.5, 2.0, 0.99, 1.01)] + [prox(u, 1.0 / alpha)]
    for v in points:
        there, step = float(c.asked.value(v)), v - p
        least = value + alpha * float((u - p) @ step)
        least -= 0.0 if convex else 0.5 * alpha * float(step @ step)
        lost = _PROX_ERROR * alpha * (norm(p) + norm(u)) * norm(step) + 40.0 * c.value_noise
        if there < least - lost - 1e-12 * (abs(value) + abs(there)):
            return (
                f"with alpha = {alpha:.3g} the value {value:.9g} there implies a value of at least "
                f"{least:.9g} at another point, where it is {there:.9g}"
            )
    return ""


def _first_look(c: Checker) -> None:
    """The own answers at x are finite and of the right shape; they are kept in `at_x`."""
    if "grad" in c.known:
        c.at_x["grad"] = _examine(c, "the gradient", c.asked.grad(c.x), (c.n,))
    if "value" in c.known:
        c.at_x["value"] = _examine_value(c, c.asked.value(c.x))
    if "value_and_grad" in c.known:
        answer = c.asked.value_and_grad(c.x)
        if not isinstance(answer, (tuple, list)) or len(answer) != 2:
            c.give_up("value_and_grad must answer with a pair (value, gradient)")
        value, grad = answer
        c.at_x["value_and_grad"] = (
            _examine_value(c, value),
            _examine(c, "the gradient", grad, (c.n,)),
        )
    c.remember_x()


def _examine_value(c: Checker, answer: Any) -> float:
    value = np.asarray(answer)
    if value.ndim or value.dtype.kind not in "fiu":
        what = f"an array of shape {value.shape}" if value.ndim else f"{value!r}"
        c.give_up(f"the value is {what}, expected a number")
    if not np.isfinite(value):
        c.give_up(f"the value is {value}")
    return float(value)


def _examine(c: Checker, name: str, answer: Any, shape: tuple[int, ...]) -> Vector:
    """The answer as an array, if it is a finite one of that shape."""
    array = np.array(answer)
    if array.shape != shape:
        c.give_up(f"{name} has shape {array.shape}, expected {shape}")
    if array.dtype.kind not in "fiu":
        c.give_up(f"{name} is made of {array.dtype}, not of real numbers")
    if not np.isfinite(array).all():
        c.give_up(f"{name} contains NaN or infinity")
    return array.astype(np.float64)

"""The single checks behind `geartrain.check_term`."""

from __future__ import annotations

from typing import Any

import numpy as np

from geartrain.oracles.protocols import Vector, answers, can

EPS = float(np.finfo(np.float64).eps)
# With more summands than this their mean takes too long.
MOST_COMPONENTS = 20_000


class Checker:
    """The checks; what is wrong gathers in `problems`.

    A term's rounding errors are not known, they are measured: by how much an answer moves
    when x moves by a few units in its last place.
    """

    def __init__(self, term: Any, x: Vector, rng: np.random.Generator) -> None:
        self.term, self.x, self.rng = term, x, rng
        self.n = x.size
        self.known = answers(term)
        self.problems: list[str] = []
        self.checked: list[str] = []
        self.scale = 1.0 + float(np.linalg.norm(x)) / max(np.sqrt(self.n), 1.0)

    def raw_grad(self, x: Vector) -> Any:
        """The gradient as it is answered, or put together."""
        term, known = self.term, self.known
        if "grad" in known:
            return term.grad(x)
        if "value_and_grad" in known:
            return term.value_and_grad(x)[1]
        if "component" in known:
            return np.mean([term.component(x, k) for k in range(term.n_components)], axis=0)
        return [term.coord(x, i) for i in range(self.n)]

    def grad(self, x: Vector) -> Vector:
        """The gradient as an array."""
        return np.asarray(self.raw_grad(x), dtype=np.float64)

    def value(self, x: Vector) -> float:
        """The value."""
        return float(
            self.term.value(x) if "value" in self.known else self.term.value_and_grad(x)[0]
        )

    def direction(self) -> Vector:
        """A random unit vector."""
        d = self.rng.standard_normal(self.n)
        return d / np.linalg.norm(d)

    def nearby(self, x: Vector) -> Vector:
        """X, moved by a few units in the last place."""
        return x * (1.0 + 8.0 * EPS * self.rng.standard_normal(self.n))

    def grad_noise(self, x: Vector, grad: Vector) -> float:
        """Size of the rounding errors in a gradient near x."""
        moved = max(float(np.linalg.norm(self.grad(self.nearby(x)) - grad)) for _ in range(2))
        return 20.0 * moved + 40.0 * EPS * float(np.linalg.norm(grad))

    def value_noise(self, x: Vector, value: float) -> float:
        """Size of the rounding errors in a value near x."""
        moved = max(abs(self.value(self.nearby(x)) - value) for _ in range(4))
        return 20.0 * moved + 40.0 * EPS * abs(value)

    def shapes(self) -> bool:
        """Whether value and gradient are what can be computed with."""
        self.checked.append("shape of the gradient")
        grad = np.asarray(self.raw_grad(self.x))
        if grad.shape != (self.n,):
            self.problems.append(
                f"the gradient has shape {grad.shape}, expected ({self.n},) as x has"
            )
        elif grad.dtype.kind not in "fiu":
            self.problems.append(f"the gradient is made of {grad.dtype}, not of real numbers")
        elif not np.isfinite(grad).all():
            self.problems.append("the gradient contains NaN or infinity")
        elif can(self.term, "value"):
            value = np.asarray(
                self.term.value(self.x)
                if "value" in self.known
                else self.term.value_and_grad(self.x)[0]
            )
            if value.ndim or value.dtype.kind not in "fiu":
                what = f"an array of shape {value.shape}" if value.ndim else f"{value!r}"
                self.problems.append(f"the value is {what}, expected a number")
            elif not np.isfinite(value):
                self.problems.append(f"the value is {value}")
        return not self.problems

    def side_effects(self) -> None:
        """A question leaves x and earlier answers alone."""
        if not {"grad", "value_and_grad"} & self.known:
            return
        self.checked.append("side effects")
        x = self.x.copy()
        first = self.raw_grad(x)
        if not np.array_equal(x, self.x):
            self.problems.append("asking for the gradient changes x; work on a copy")
            return
        copy = np.array(first)
        self.raw_grad(x + self.scale)
        if not np.array_equal(first, copy):
            self.problems.append(
                "the gradient is answered in the same array every time, so that a new answer "
                "overwrites the last one; return a copy"
            )

    def fused(self) -> None:
        """Fused and separate answers agree."""
        if "value_and_grad" not in self.known:
            return
        value, grad = self.term.value_and_grad(self.x)
        if "value" in self.known:
            self.checked.append("value_and_grad against value")
            alone = self.term.value(self.x)
            if abs(value - alone) > 1e-9 * abs(alone) + self.value_noise(self.x, alone):
                self.problems.append(
                    f"value_and_grad gives the value {value:.9g} but value gives {alone:.9g}"
                )
        if "grad" in self.known:
            self.checked.append("value_and_grad against grad")
            alone = self.grad(self.x)
            gap = float(np.linalg.norm(grad - alone))
            if gap > 1e-9 * np.linalg.norm(alone) + self.grad_noise(self.x, alone):
                self.problems.append(
                    f"value_and_grad and grad give different gradients: they differ by {gap:.3g}"
                )

    def taylor(self) -> None:
        """|f(x + td) - f(x) - t<grad, d>| must fall like t^2: the slope tells a wrong gradient.

        A secant of f lies between the slopes that the gradient states along it. Where it does
        not, at several small t, value and gradient are not of the same function.
        """
        self.checked.append("Taylor slope of the gradient")
        f0, g0 = self.value(self.x), self.grad(self.x)
        noise = self.value_noise(self.x, f0)
        pairs = []
        for _ in range(3):
            d = self.direction()
            slope = float(g0 @ d)
            wrong, steps, errors, seen = 0, [], [], slope
            for t in self.scale * np.logspace(-1, -9, 17):
                up, down = self.value(self.x + t * d), self.value(self.x - t * d)
                secant = (up - down) / (2.0 * t)
                lost = 2.0 * (noise + 40.0 * EPS * (abs(up) + abs(down))) / t
                bend = max(abs(float(self.grad(self.x + s * d) @ d) - slope) for s in (t, -t))
                if abs(secant - slope) > 2.0 * bend + lost + 1e-7 * abs(slope):
                    wrong += 1
                    steps.append(t)
                    errors.append(abs(up - f0 - t * slope))
                    seen = secant
            if wrong >= 3:
                pairs.append((seen, slope, np.polyfit(np.log(steps), np.log(errors), 1)[0]))
        if not pairs:
            return
        seen, slope, rate = pairs[0]
        ratios = [b / a for a, b, _ in pairs if a != 0.0]
        factor = ""
        if len(ratios) == 3 and np.ptp(ratios) <= 1e-3 * abs(ratios[0]):
            factor = f": it is {ratios[0]:.4g} times what it should be, in every direction"
        self.problems.append(
            "the gradient does not fit the value: the Taylor error falls like "
            f"t^{rate:.2f} instead of t^2; along a random direction the value changes at "
            f"the rate {seen:.6g} but the gradient says {slope:.6g}{factor}"
        )

    def components(self) -> None:
        """The mean of the summands' gradients is the gradient."""
        if "component" not in self.known:
            return
        m = self.term.n_components
        if m > MOST_COMPONENTS or not {"grad", "value_and_grad"} & self.known:
            return
        self.checked.append("mean of components")
        parts = np.array([self.term.component(self.x, k) for k in range(m)], dtype=np.float64)
        if parts.shape != (m, self.n):
            self.problems.append(
                f"component(x, k) has shape {parts.shape[1:]}, expected ({self.n},) as x has"
            )
            return
        grad = self.grad(self.x)
        gap = float(np.linalg.norm(parts.mean(axis=0) - grad))
        size = float(np.linalg.norm(grad))
        typical = float(np.linalg.norm(parts, axis=1).mean())
        if not gap <= 1e-9 * (size + typical) + self.grad_noise(self.x, grad):
            of_a_sum = np.linalg.norm(parts.sum(axis=0) - grad) <= 1e-6 * (size + m * typical)
            self.problems.append(
                "the mean of the components is not the gradient: they differ by "
                f"{gap:.3g} (gradient norm {size:.3g}); "
                + (
                    f"their sum is: multiply component by n_components = {m}, or "
                    if of_a_sum and m > 1
                    else ""
                )
                + "component(x, k) must be the gradient of one summand of a mean, not of a sum"
            )

    def partials(self) -> None:
        """Partial derivatives are the entries of the gradient."""
        if "coord" not in self.known or not {"grad", "value_and_grad"} & self.known:
            return
        self.checked.append("partial derivatives")
        grad = self.grad(self.x)
        allowed = 1e-9 * float(np.abs(grad).max()) + self.grad_noise(self.x, grad)
        for i in self.rng.choice(self.n, size=min(self.n, 20), replace=False):
            partial = float(self.term.coord(self.x, int(i)))
            if not abs(partial - grad[i]) <= allowed:
                self.problems.append(
                    f"coord(x, {i}) = {partial:.9g} but the gradient's entry is {grad[i]:.9g}"
                )
                return

    def prox(self) -> None:
        """The gradient of term(v) + alpha/2 |v - u|^2 vanishes at prox(u, alpha)."""
        if "prox" not in self.known:
            return
        self.checked.append("prox")
        alpha = float(getattr(self.term, "L", None) or 1.0)
        p = np.asarray(self.term.prox(self.x, alpha), dtype=np.float64)
        if p.shape != (self.n,):
            self.problems.append(f"prox has shape {p.shape}, expected ({self.n},) as x has")
            return
        grad, pull = self.grad(p), alpha * (p - self.x)
        size = float(np.linalg.norm(grad) + alpha * np.linalg.norm(self.x))
        left = float(np.linalg.norm(grad + pull))
        if not left <= 1e-6 * size + self.grad_noise(p, grad):
            self.problems.append(
                "prox(u, alpha) does not minimise term(v) + alpha/2 |v - u|^2: with alpha = "
                f"{alpha:.3g} a gradient of norm {left:.3g} is left (of {size:.3g})"
            )

    def constants(self) -> None:
        """Stated L and mu hold on pairs of points along the flattest and steepest directions."""
        L = getattr(self.term, "L", None)
        mu = float(getattr(self.term, "mu", 0.0) or 0.0)
        convex = getattr(self.term, "convex", True)
        if L is not None:
            self.checked.append("L")
        if convex:
            self.checked.append("convexity and mu")
        worst, least = 0.0, np.inf
        for _ in range(5):
            u = self.x + self.scale * self.rng.standard_normal(self.n)
            grad = self.grad(u)
            noise = self.grad_noise(u, grad)
            step = self.scale * 10.0 ** self.rng.uniform(-3, 0.5)
            for d in (self.direction(), *self._extremes(u, grad, step)):
                change = self.grad(u + step * d) - grad
                worst = max(worst, (float(np.linalg.norm(change)) - 2.0 * noise) / step)
                least = min(least, (float(change @ d) + 2.0 * noise) / step)
        if L is not None and worst > L * (1 + 1e-6):
            self.problems.append(
                f"the stated L = {L:.6g} is too small: a pair of points was met whose gradients "
                f"differ by {worst:.6g} times their distance"
            )
        if convex and least < -1e-9 * worst:
            self.problems.append(
                f"the term is not convex: curvature {least:.3g} was met along a pair of "
                "points; if that is meant, say convex=False"
            )
        elif convex and least < mu * (1 - 1e-6):
            self.problems.append(
                f"the stated mu = {mu:.6g} is too large: curvature {least:.6g} was met"
            )

    def _extremes(self, u: Vector, grad: Vector, step: float) -> tuple[Vector, Vector]:
        """Directions of least and largest curvature about u, by Lanczos on differences."""
        basis = [self.direction()]
        images: list[Vector] = []
        for _ in range(min(self.n, 12)):
            images.append((self.grad(u + step * basis[-1]) - grad) / step)
            w = images[-1]
            for _ in range(2):
                w = w - np.array(basis).T @ (np.array(basis) @ w)
            size = float(np.linalg.norm(w))
            if size <= 1e-8 * float(np.linalg.norm(images[-1])):
                break
            basis.append(w / size)
        V = np.array(basis[: len(images)])
        T = V @ np.array(images).T
        vectors = np.linalg.eigh((T + T.T) / 2)[1]
        low, high = vectors[:, 0] @ V, vectors[:, -1] @ V
        return low / np.linalg.norm(low), high / np.linalg.norm(high)

    def coordinate_constants(self) -> None:
        """The stated L_coord hold."""
        L_coord = getattr(self.term, "L_coord", None)
        if L_coord is None:
            return
        self.checked.append("L_coord")
        grad = self.grad(self.x)
        noise = self.grad_noise(self.x, grad)
        for i in self.rng.choice(self.n, size=min(self.n, 20), replace=False):
            step = np.zeros(self.n)
            step[i] = self.scale * 10.0 ** self.rng.uniform(-3, 0)
            seen = (abs(self.grad(self.x + step)[i] - grad[i]) - 2.0 * noise) / step[i]
            if seen > L_coord[i] * (1 + 1e-6):
                self.problems.append(
                    f"the stated L_coord[{i}] = {L_coord[i]:.6g} is too small: the partial "
                    f"derivative changes at the rate {seen:.6g}"
                )
                return

    def component_constants(self) -> None:
        """The stated L_components hold."""
        L_components = getattr(self.term, "L_components", None)
        if L_components is None or "component" not in self.known or self.problems:
            return
        self.checked.append("L_components")
        m = self.term.n_components
        for k in self.rng.choice(m, size=min(m, 20), replace=False):
            at_x = np.asarray(self.term.component(self.x, int(k)))
            near = np.asarray(self.term.component(self.nearby(self.x), int(k)))
            noise = 20.0 * np.linalg.norm(near - at_x) + 40.0 * EPS * np.linalg.norm(at_x)
            d = self.direction() * self.scale
            for _ in range(3):  # the curvature of one summand often has a single direction
                change = np.asarray(self.term.component(self.x + d, int(k))) - at_x
                size = float(np.linalg.norm(change))
                seen = (size - 2.0 * noise) / np.linalg.norm(d)
                if seen > L_components[k] * (1 + 1e-6):
                    self.problems.append(
                        f"the stated L_components[{k}] = {L_components[k]:.6g} is too small: that "
                        f"summand's gradient changes at the rate {seen:.6g}"
                    )
                    return
                if size == 0.0:
                    break
                d = change / size * self.scale * 10.0 ** self.rng.uniform(-3, 0)

"""What the checks behind `geartrain.check_term` share: points, answers, rounding errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from geartrain.oracles.protocols import Vector, answers, can
from geartrain.oracles.question_checks import EPS


class Checker:
    """A term under examination; what is wrong gathers in `problems`.

    A term's rounding errors are not known, they are measured: by how much an answer moves
    when x moves by a few units in its last place.
    """

    def __init__(self, term: Any, x: Vector, rng: np.random.Generator) -> None:
        self.term, self.x, self.rng = term, x, rng
        self.n = x.size
        self.known = answers(term)
        self.problems: list[str] = []
        self.checked: list[str] = []
        self.broken = False  # its answers cannot be computed with: nothing more is checked
        self.scale = 1.0 + float(np.linalg.norm(x)) / max(np.sqrt(self.n), 1.0)

    def has(self, question: str) -> bool:
        """Whether `question` can be answered, by the term or from its other answers."""
        return can(self.term, question)

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
        """x, moved by a few units in the last place."""
        return x * (1.0 + 8.0 * EPS * self.rng.standard_normal(self.n))

    def grad_noise(self, x: Vector, grad: Vector) -> float:
        """Size of the rounding errors in a gradient near x."""
        moved = max(float(np.linalg.norm(self.grad(self.nearby(x)) - grad)) for _ in range(2))
        return 20.0 * moved + 40.0 * EPS * float(np.linalg.norm(grad))

    def value_noise(self, x: Vector, value: float) -> float:
        """Size of the rounding errors in a value near x."""
        moved = max(abs(self.value(self.nearby(x)) - value) for _ in range(4))
        return 20.0 * moved + 40.0 * EPS * abs(value)

    def extremes(self, u: Vector, grad: Vector, step: float) -> tuple[Vector, Vector]:
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

r"""More than two terms: the order of the levels that has the smallest bill.

==========  =============  =====================================================
symbol      name           meaning
==========  =============  =====================================================
L_i, p_i    ``L``,         smoothness of a term, price of one of its gradients
            ``prices``
S_i         ``S``          L_1 + ... + L_i, the smoothness of the levels down to i
T_i         ``steps``      calls of level i per call of level i - 1
==========  =============  =====================================================

The theorem bounds the calls of level i by sqrt(S_i/mu) times constants and logarithms. The bill
that `order` minimises has the constants that were measured on quadratics with three terms:
T_i^2 = t^2 + c^2 L_i/S_{i-1} with c = max(0.5, 2 - 0.14 ln(S_{i-1}/mu)). How far it is from the
bill of runs on other problems is in the documentation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any, TypeAlias

from geartrain.oracles.validation import as_nonnegative, as_positive
from geartrain.theory.arguments import accuracy_factor

Levels: TypeAlias = tuple[tuple[Any, ...], ...]

# Calls of the first of several levels over those of FGM on the same term.
_FIRST = 1.14
# t for the levels between the first and the last one, and for the last one.
_BETWEEN, _LAST = 1.0, 1.1
# Factor of the levels from the third one on.
_DEEP = 1.15
# S/mu that is assumed where mu is not known.
_KAPPA = 1e3
# All ordered partitions of so many terms are compared. Of more terms, those of nearest price are
# merged before.
_COMPARED = 6


def level_calls(
    L: Sequence[float], *, mu: float = 0.0, eps: float = 1e-6, R: float = 1.0
) -> list[float]:
    """Calls of every level, outermost first, by the theorem for more than two terms.

    They are right up to a common constant; see the head of the module.

    Parameters
    ----------
    L : sequence of float
        Smoothness of every level, the sum over its terms.
    mu, eps, R : float
        As in `calls`.

    Returns
    -------
    list of float
        One number per level. A single level stands for FGM on the sum.
    """
    constants = [as_positive(value, "L") for value in L]
    as_nonnegative(mu, "mu")
    first, *others = constants
    S = first
    found = [math.sqrt(first) * accuracy_factor(mu, eps, R) * (_FIRST if others else 1.0)]
    for i, own in enumerate(others, start=1):
        c = max(0.5, 2.0 - 0.14 * math.log(S / mu if mu else _KAPPA))
        t = _LAST if i == len(others) else _BETWEEN
        steps = math.sqrt(t**2 + c**2 * own / S) * (_DEEP if i > 1 else 1.0)
        found.append(found[-1] * steps)
        S += own
    return found


def order(
    L: Mapping[str, float] | Sequence[float],
    prices: Mapping[str, float] | Sequence[float],
    *,
    mu: float = 0.0,
) -> Levels:
    """The levels of many terms that have the smallest bill, outermost first.

    Terms on one level are asked together. The bill of an order is the sum over all terms of the
    price times the number of calls by `level_calls`, by the theorem for more than two terms.

    Parameters
    ----------
    L, prices : dict or sequence of float
        Smoothness of every term, g included, and the price of one of its gradients.
    mu : float
        Strong convexity of the sum; 0 if it is not known.

    Returns
    -------
    tuple of tuple
        The names of the terms on every level, or their positions where sequences are given. One
        level alone stands for FGM on the sum.

    Examples
    --------
    >>> import geartrain as gt
    >>> L = {"simulator": 1.0, "cluster": 100.0, "g": 1e4}
    >>> gt.theory.order(L, {"simulator": 1e4, "cluster": 100.0, "g": 1.0})
    (('simulator',), ('cluster',), ('g',))
    >>> gt.theory.order([10.0, 10.0, 10.0], [1.0, 1.0, 1.0])
    ((0, 1, 2),)
    """
    smooth, price = _named(L, "L"), _named(prices, "price")
    if smooth.keys() != price.keys():
        raise ValueError(
            f"L and prices must have the same terms, got {', '.join(map(str, smooth))} and "
            f"{', '.join(map(str, price))}"
        )
    if not smooth:
        raise ValueError("L is empty: give one constant per term")
    groups = _merged([(name,) for name in smooth], price)
    best = min(arrangements(groups), key=lambda levels: level_bill(levels, smooth, price, mu=mu))
    return tuple(tuple(name for name in smooth if name in level) for level in best)


def level_bill(
    levels: Levels, L: Mapping[Any, float], prices: Mapping[Any, float], *, mu: float = 0.0
) -> float:
    """The sum over all terms of price times calls, by the theorem for more than two terms.

    The calls are those of `level_calls`.

    Parameters
    ----------
    levels : tuple of tuple
        The names of the terms on every level, outermost first.
    L, prices : dict of float
        Smoothness of every term, and the price of one of its gradients, by name.
    mu : float
        Strong convexity of the sum; 0 if it is not known.
    """
    calls = level_calls([sum(L[name] for name in level) for level in levels], mu=mu)
    return sum(n * prices[name] for n, level in zip(calls, levels, strict=True) for name in level)


def _named(given: Any, what: str) -> dict[Any, float]:
    pairs = given.items() if isinstance(given, Mapping) else enumerate(given)
    return {name: as_positive(value, f"the {what} of {name!r}") for name, value in pairs}


def _merged(groups: list[tuple[Any, ...]], price: Mapping[Any, float]) -> list[tuple[Any, ...]]:
    """At most `_COMPARED` groups: those whose dearest terms are nearest in price are merged."""
    groups = sorted(groups, key=lambda group: -max(price[name] for name in group))
    while len(groups) > _COMPARED:
        tops = [max(price[name] for name in group) for group in groups]
        ratios = [above / below for above, below in pairwise(tops)]
        i = ratios.index(min(ratios))
        groups[i : i + 2] = [groups[i] + groups[i + 1]]
    return groups


def arrangements(groups: Sequence[tuple[Any, ...]]) -> Iterator[Levels]:
    """All ordered partitions, those with few levels first."""
    found = sorted(_partitions(tuple(range(len(groups)))), key=len)
    for levels in found:
        yield tuple(tuple(name for i in level for name in groups[i]) for level in levels)


def _partitions(items: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], ...]]:
    if not items:
        yield ()
    for size in range(1, len(items) + 1):
        for first in combinations(items, size):
            rest = tuple(item for item in items if item not in first)
            for others in _partitions(rest):
                yield (first, *others)

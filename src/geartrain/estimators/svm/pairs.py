r"""One against one: a classifier for every pair of classes, as in LIBSVM.

The classifiers are those of the pairs (i, j), i < j, in lexicographic order. With more than two
classes, class i is the positive one of its pair; with two classes it is class 1.

===============  ======================================================================
name             meaning
===============  ======================================================================
``values``       decision values, one column per pair
``dual_coef``    (n_classes - 1, n_support): for the pair (i, j), row j - 1 at the support
                 vectors of class i and row i at those of class j
``M``            (n_support, n_pairs): the coefficients of one pair in each column
===============  ======================================================================
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy import sparse

from geartrain.compiled.records import Array


def pairs(n_classes: int) -> list[tuple[int, int]]:
    """All (i, j) with i < j."""
    return list(combinations(range(n_classes), 2))


def pack(coefficients: list[Array], labels: Array, n_classes: int) -> tuple[Array, Array, Array]:
    """Support vectors in the order of their classes, their numbers per class, and `dual_coef`.

    `coefficients` are those of all samples for each pair, zero for the samples of other classes.
    """
    used = np.zeros(labels.size, np.bool_)
    for column in coefficients:
        used |= column != 0.0
    support = np.concatenate([np.flatnonzero(used & (labels == k)) for k in range(n_classes)])
    n_support = np.bincount(labels[support], minlength=n_classes).astype(np.int32)
    if n_classes == 2:
        return support, n_support, coefficients[0][support][None]
    dual_coef = np.zeros((n_classes - 1, support.size))
    for (i, j), column in zip(pairs(n_classes), coefficients, strict=True):
        first, second = labels[support] == i, labels[support] == j
        dual_coef[j - 1, first] = column[support[first]]
        dual_coef[i, second] = column[support[second]]
    return support, n_support, dual_coef


def unpack(dual_coef: Array, n_support: Array) -> Array:
    """The matrix M, as an array for two classes and sparse for more."""
    n_classes = n_support.size
    if n_classes == 2:
        return dual_coef.T
    ends = np.concatenate([[0], np.cumsum(n_support)])
    rows, columns, data = [], [], []
    for k, (i, j) in enumerate(pairs(n_classes)):
        for row, of in ((j - 1, i), (i, j)):
            where = np.arange(ends[of], ends[of + 1])
            rows.append(where)
            columns.append(np.full(where.size, k))
            data.append(dual_coef[row, where])
    parts = tuple(np.concatenate(part) for part in (rows, columns))
    shape = (int(ends[-1]), len(pairs(n_classes)))
    return sparse.csc_array((np.concatenate(data), parts), shape=shape)


def votes(wins: Array, n_classes: int) -> Array:
    """Number of votes for each class; `wins` tells which pairs (i, j) vote for class i."""
    out = np.zeros((wins.shape[0], n_classes))
    for k, (i, j) in enumerate(pairs(n_classes)):
        out[:, i] += wins[:, k]
        out[:, j] += ~wins[:, k]
    return out


def one_against_rest(values: Array, n_classes: int) -> Array:
    """Votes, with ties resolved by the sums of the decision values.

    A sum s is mapped to s/(3 (|s| + 1)), which is smaller than half a vote. As in SVC, a value of
    zero is a vote for class i here, and for class j in `predict`.
    """
    sums = np.zeros((values.shape[0], n_classes))
    for k, (i, j) in enumerate(pairs(n_classes)):
        sums[:, i] += values[:, k]
        sums[:, j] -= values[:, k]
    return votes(values >= 0.0, n_classes) + sums / (3.0 * (abs(sums) + 1.0))

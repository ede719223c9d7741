"""Graphs of machines: Laplacians and their spectra.

==========  ==================================================================
symbol      meaning
==========  ==================================================================
W           graph Laplacian, symmetric, W 1 = 0
lambda_2    second smallest eigenvalue of W, positive if the graph is connected
chi         lambda_max(W)/lambda_2, the condition number of gossip
==========  ==================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from geartrain.oracles.protocols import Vector

NAMES = ("ring", "grid", "star", "erdos-renyi")


@dataclass(frozen=True)
class Graph:
    """A connected graph by its Laplacian."""

    W: Vector  # (N, N)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self.W.shape[0]

    def neighbours(self, i: int) -> list[int]:
        """The neighbours of node i in ascending order."""
        return [int(j) for j in np.flatnonzero(self.W[i]) if j != i]

    @cached_property
    def _eigenvalues(self) -> Vector:
        return np.asarray(np.linalg.eigvalsh(self.W), dtype=np.float64)

    @property
    def lambda_max(self) -> float:
        """Largest eigenvalue."""
        return float(self._eigenvalues[-1])

    @property
    def lambda_2(self) -> float:
        """Smallest positive eigenvalue."""
        return float(self._eigenvalues[1])

    @property
    def chi(self) -> float:
        """Condition number."""
        return self.lambda_max / self.lambda_2


def make_graph(graph: Any, n_nodes: int, seed: int = 0) -> Graph:
    """Make a `Graph` from a name, a networkx graph or a matrix.

    Parameters
    ----------
    graph : str, networkx graph or array (N, N)
        "ring", "grid" (as square as N allows), "star" (node 0 in the middle) or "erdos-renyi"
        (edges with probability 2 ln N / N, drawn until the graph is connected). A symmetric matrix
        with rows that add up to zero is taken as Laplacian, any other as adjacency matrix.
    n_nodes : int
        Number of nodes.
    seed : int
        Seed of "erdos-renyi".

    Returns
    -------
    Graph
        A symmetric, connected graph of n_nodes nodes.
    """
    if isinstance(graph, str):
        if graph not in NAMES:
            raise ValueError(f"unknown graph {graph!r}; choose one of {', '.join(NAMES)}")
        if n_nodes < 2:
            raise ValueError(f"a graph of at least two nodes is needed, got {n_nodes}")
        edges = _erdos_renyi(n_nodes, seed) if graph == "erdos-renyi" else _regular(graph, n_nodes)
        return Graph(_laplacian(edges))
    if hasattr(graph, "adjacency"):
        import networkx

        matrix = networkx.to_numpy_array(graph)
    else:
        matrix = np.asarray(graph, dtype=np.float64)
    if matrix.shape != (n_nodes, n_nodes):
        raise ValueError(f"the graph must have {n_nodes} nodes, its matrix has {matrix.shape}")
    if not np.allclose(matrix, matrix.T, rtol=0.0, atol=1e-12 * np.abs(matrix).max()):
        raise ValueError("the matrix of the graph must be symmetric: messages go both ways")
    scale = np.abs(matrix).max()
    is_laplacian = np.abs(matrix.sum(axis=1)).max() <= 1e-12 * scale * n_nodes
    W = matrix if is_laplacian else _laplacian(matrix)
    if (W - np.diag(np.diag(W)) > 0).any():
        raise ValueError("the weights of the edges must not be negative")
    made = Graph(W)
    if made.lambda_2 <= 1e-10 * made.lambda_max:
        raise ValueError("the graph is not connected: its nodes can never agree")
    return made


def _laplacian(adjacency: Vector) -> Vector:
    plain = adjacency - np.diag(np.diag(adjacency))
    return np.diag(plain.sum(axis=1)) - plain


def _regular(name: str, N: int) -> Vector:
    A = np.zeros((N, N))
    if name == "star":
        A[0, 1:] = A[1:, 0] = 1.0
        return A
    if name == "ring":
        for i in range(N):
            A[i, (i + 1) % N] = A[(i + 1) % N, i] = 1.0
        return A
    rows = next(r for r in range(math.isqrt(N), 0, -1) if N % r == 0)
    columns = N // rows
    for i in range(N):
        if (i + 1) % columns:
            A[i, i + 1] = A[i + 1, i] = 1.0
        if i + columns < N:
            A[i, i + columns] = A[i + columns, i] = 1.0
    return A


def _erdos_renyi(N: int, seed: int) -> Vector:
    rng = np.random.default_rng((N, seed))
    p = min(1.0, 2.0 * math.log(N) / N)
    while True:
        upper = np.triu(rng.random((N, N)) < p, 1).astype(np.float64)
        A = upper + upper.T
        if Graph(_laplacian(A)).lambda_2 > 1e-10:
            return A

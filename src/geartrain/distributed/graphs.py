"""Graphs of machines: Laplacians, their nodes here or over MPI, and vectors in blocks.

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
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from geartrain.oracles.ledger import Ledger, Observer, Oracle
from geartrain.oracles.protocols import Vector
from geartrain.oracles.questions import VECTOR, Question

NAMES = ("ring", "grid", "star", "erdos-renyi")


@dataclass(frozen=True)
class Graph:
    """A connected graph by its Laplacian."""

    W: Vector  # (N, N)

    @property
    def n_nodes(self) -> int:
        return self.W.shape[0]

    def neighbours(self, i: int) -> list[int]:
        """The neighbours of node i in ascending order."""
        return [int(j) for j in np.flatnonzero(self.W[i]) if j != i]

    @cached_property
    def _eigenvalues(self) -> Vector:
        return np.asarray(np.linalg.eigvalsh(self.W), dtype=np.float64)

    @property
    def lambda_max(self) -> float:
        return float(self._eigenvalues[-1])

    @property
    def lambda_2(self) -> float:
        """Smallest positive eigenvalue."""
        return float(self._eigenvalues[1])

    @property
    def chi(self) -> float:
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


class Network(Protocol):
    """The nodes of this process, and their connection to the others."""

    def exchange(self, x: Vector) -> Vector:
        """The blocks of W x of this process: one message each way along every edge."""

    def total(self, number: float) -> float:
        """Sum over all processes."""


class OneProcess:
    """All nodes in this process."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def exchange(self, x: Vector) -> Vector:
        return (self.graph.W @ x.reshape(self.graph.n_nodes, -1)).ravel()

    def total(self, number: float) -> float:
        return number


class OverMPI:
    """One node per rank."""

    def __init__(self, graph: Graph, comm: Any) -> None:
        self.comm, self.row = comm, graph.W[comm.rank]
        self.neighbours = graph.neighbours(comm.rank)
        self.parts = np.empty(comm.size)

    def exchange(self, x: Vector) -> Vector:
        from mpi4py import MPI

        own = np.ascontiguousarray(x)
        blocks = {j: np.empty_like(own) for j in self.neighbours}
        requests = [self.comm.Irecv(blocks[j], source=j) for j in self.neighbours]
        requests += [self.comm.Isend(own, dest=j) for j in self.neighbours]
        MPI.Request.Waitall(requests)
        out = self.row[self.comm.rank] * own
        for j in self.neighbours:
            out += self.row[j] * blocks[j]
        return out

    def total(self, number: float) -> float:
        # The numbers are gathered and added here, because MPI may round Allreduce differently on
        # every rank, and ranks that decide differently would wait for each other forever. Pickled
        # numbers would take ten times as long as a buffer.
        self.comm.Allgather(np.array([number]), self.parts)
        return float(self.parts.sum())


class Block(np.ndarray):
    """The part of a vector that this rank holds: inner products are sums over all ranks.

    The methods run on every rank without change, and take the same decisions everywhere.
    """

    network: Network | None

    def __array_finalize__(self, other: Any) -> None:
        self.network = getattr(other, "network", None)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func is np.dot:
            return self.dot(args[1] if args[0] is self else args[0])
        return super().__array_function__(func, types, args, kwargs)

    def dot(self, other: Any, out: None = None) -> Any:  # type: ignore[override]
        """The inner product of the whole vectors."""
        if self.network is None or self.ndim != 1 or np.ndim(other) != 1:
            raise TypeError("vectors in blocks have inner products only")
        return self.network.total(float(np.asarray(self) @ np.asarray(other)))

    def __matmul__(self, other: Any) -> Any:
        return self.dot(other)

    @classmethod
    def of(cls, x: Vector, network: Network) -> Block:
        """The array x as a block."""
        block = x.view(cls)
        block.network = network
        return block


class BlockOracle(Oracle):
    """An oracle whose answers are blocks; an answer that one rank refuses is refused by all."""

    def __init__(self, term: Any, name: str, ledger: Ledger, n: int, network: Network) -> None:
        self.network = network
        super().__init__(term, name, ledger, n)

    def observe(self, questions: Iterable[str], observer: Observer) -> Callable[[], None]:
        """As for any oracle; vectors are told as blocks."""

        def tell(question: Question, args: tuple[Any, ...], answer: Any) -> None:
            is_vector = question.answer == (VECTOR,)
            observer(question, args, Block.of(answer, self.network) if is_vector else answer)

        return super().observe(questions, tell)

    def _own(self, question: Question, fn: Callable[..., Any]) -> Callable[..., Any]:
        if question.answer != (VECTOR,):
            return super()._own(question, fn)

        def together(*args: Any) -> Vector:
            out = np.asarray(fn(*args))
            refused = self.network.total(0.0 if np.isfinite(out).all() else 1.0)
            return np.full_like(out, np.nan) if refused else out

        ask = super()._own(question, together)
        return lambda *args: Block.of(ask(*args), self.network)

"""The nodes of a graph in one process or one per rank, and vectors in distributed blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np

from geartrain.distributed.graphs import Graph
from geartrain.oracles.ledger import Ledger, Observer, Oracle
from geartrain.oracles.protocols import Vector
from geartrain.oracles.questions import VECTOR, Question


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
        """The product W x."""
        return (self.graph.W @ x.reshape(self.graph.n_nodes, -1)).ravel()

    def total(self, number: float) -> float:
        """The number itself."""
        return number


class OverMPI:
    """One node per rank."""

    def __init__(self, graph: Graph, comm: Any) -> None:
        self.comm, self.row = comm, graph.W[comm.rank]
        self.neighbours = graph.neighbours(comm.rank)
        self.parts = np.empty(comm.size)

    def exchange(self, x: Vector) -> Vector:
        """The block of W x of this rank."""
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
        """Sum over all ranks, the same on all of them."""
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

"""The part of a worker in a round: to answer for its own group of shards and for those below it.

Groups are the nodes of a tree that is fixed for a run, independent of the workers that hold them. A
node passes x on, computes its own sums meanwhile, and adds the answers in the order of the tree.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from distributed import WorkerPlugin
from distributed.core import ConnectionPool, send_recv
from distributed.protocol import to_serialize

from geartrain.oracles.protocols import Vector

OPERATION = "geartrain_sums"
# Seconds after which a worker that accepts no connection counts as lost. Dask tries for 30 seconds.
CONNECT = 2.0


class Node(NamedTuple):
    """A group of shards and the groups that are asked through it."""

    number: int
    key: str  # of the future that holds the group
    address: str  # of its worker
    below: tuple[Any, ...]  # nodes

    @classmethod
    def of(cls, fields: Any) -> Node:
        """A node from the list as which it is transmitted."""
        number, key, address, below = fields
        return cls(number, key, address, tuple(map(cls.of, below)))


class Answer(NamedTuple):
    """Sums of values and gradients, or the groups that could not be reached."""

    value: float
    gradient: Any  # None if a group is lost
    lost: tuple[int, ...] = ()


def add(answers: list[Answer]) -> Answer:
    """The sum in the given order, or all lost groups if there are any."""
    lost = tuple(number for answer in answers for number in answer.lost)
    if lost:
        return Answer(0.0, None, lost)
    value, gradient = answers[0].value, answers[0].gradient.copy()
    for answer in answers[1:]:
        value += answer.value
        gradient += answer.gradient
    return Answer(value, gradient)


def request(node: Node, x: Vector) -> dict[str, Any]:
    """The message to the worker of a node."""
    return {"op": OPERATION, "node": node, "x": to_serialize(x)}


async def ask(pool: ConnectionPool, node: Node, x: Vector) -> Answer:
    """The answer of a node, over a connection to its worker that stays open."""
    lost = Answer(0.0, None, (node.number,))
    try:
        comm = await pool.connect(node.address, timeout=CONNECT)
    except (OSError, RuntimeError):  # refused, silent; or the pool is closed
        return lost
    try:
        return Answer(**await send_recv(comm, **request(node, x)))
    except OSError:  # the connection broke
        return lost
    finally:
        pool.reuse(node.address, comm)


class Answering(WorkerPlugin):
    """Lets the workers of a cluster answer rounds, including those that join later."""

    name = "geartrain-rounds"
    idempotent = True

    def setup(self, worker: Any) -> None:
        """Register the answering function."""
        self.worker = worker
        worker.handlers[OPERATION] = self.sums

    async def sums(self, node: Any, x: Vector) -> dict[str, Any]:
        """The sums over a node and all nodes below it."""
        top = Node.of(node)
        below = [asyncio.ensure_future(ask(self.worker.rpc, child, x)) for child in top.below]
        own = Answer(0.0, None, (top.number,))
        if top.key in self.worker.data:
            # In a thread, so that the worker keeps talking to the scheduler.
            own = Answer(*await asyncio.to_thread(self.worker.data[top.key].sums, x))
        total = add([own, *(await asyncio.gather(*below))])
        return {**total._asdict(), "gradient": to_serialize(total.gradient)}

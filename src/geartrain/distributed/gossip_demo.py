"""Gossip on a ring: ``mpiexec -n 8 python -m geartrain.distributed.gossip_demo``.

Every rank is a node with its own data. Afterwards the first rank simulates all nodes and compares
the results. Without mpiexec, eight nodes are simulated in one process.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from geartrain.distributed.gossip import OVER_MPI, Gossip
from geartrain.distributed.graphs import NAMES
from geartrain.oracles.linear_model import LinearModel


def local_term(i: int, d: int = 10, m: int = 40) -> LinearModel:
    """The logistic loss of node i on its own data."""
    rng = np.random.default_rng((11, i))
    A = rng.standard_normal((m, d)) * np.geomspace(0.3, 1.0, d)
    y = np.where(A @ np.ones(d) + rng.standard_normal(m) > 0, 1.0, -1.0)
    return LinearModel(A, y, l2=0.1)


def main(argv: Sequence[str] | None = None) -> None:
    """Run on the ranks of MPI.COMM_WORLD and print the bill.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; those of the process if not given.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graph", choices=NAMES, default="ring")
    parser.add_argument("--method", choices=OVER_MPI, default="afb")
    parser.add_argument("--eps", type=float, default=0.1, help="accuracy of the penalty form")
    parser.add_argument("--tol", type=float, default=1e-4, help="relative gradient norm")
    parser.add_argument("--chebyshev", action="store_true", help="accelerated gossip")
    parser.add_argument("--save", metavar="FILE", help="write all blocks to this .npy file")
    args = parser.parse_args(argv)
    try:
        from mpi4py import MPI
    except ModuleNotFoundError as error:
        parser.exit(1, f"gossip_demo needs {error.name}: pip install 'geartrain[mpi]'\n")
    comm = MPI.COMM_WORLD
    alone = comm.size == 1
    n_nodes = 8 if alone else comm.size
    options = {"eps": args.eps, "G": 0.5, "chebyshev": args.chebyshev}
    if not alone:
        gossip = Gossip(comm, local_term(comm.rank), args.graph, **options)
        res = gossip.minimize(method=args.method, tol=args.tol)
        blocks: Any = comm.gather(np.asarray(res.x))
    if comm.rank != 0:
        return
    here = Gossip(None, [local_term(i) for i in range(n_nodes)], args.graph, **options)
    same = here.minimize(method=args.method, tol=args.tol)
    print(f"{args.graph} of {n_nodes} nodes, chi = {here.graph.chi:.3g}, method {args.method}")
    shown = same if alone else res
    K = here.g.mixing.exchanges
    print(f"  local gradients {shown.calls['h.grad']}, exchanges {K * shown.calls['g.grad']}")
    if not alone:
        gap = np.abs(np.concatenate(blocks) - same.x).max()
        print(f"  largest difference to one process: {gap:.1e}")
    x = same.x.reshape(n_nodes, -1)
    print(f"  largest distance of a node from the mean: {np.abs(x - x.mean(axis=0)).max():.1e}")
    if args.save:
        np.save(args.save, same.x if alone else np.concatenate(blocks))


if __name__ == "__main__":
    main()

"""Run by test_gossip under mpiexec: every rank compares its blocks with those of one process."""

import sys

import numpy as np
import pytest

from geartrain.distributed.gossip import OVER_MPI, Gossip
from geartrain.distributed.gossip_demo import local_term
from geartrain.distributed.graphs import NAMES
from geartrain.oracles.callables import Term


def main():
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    assert comm.size == 4
    for k, method in enumerate(OVER_MPI):
        options = {"graph": NAMES[k % 4], "eps": 0.1, "G": 0.5, "chebyshev": k == 3}
        run = {"method": method, "max_iter": int(sys.argv[1])}
        here = Gossip(comm, local_term(comm.rank), **options).minimize(**run)
        whole = Gossip(None, [local_term(i) for i in range(4)], **options).minimize(**run)
        mine = whole.x.reshape(4, -1)[comm.rank]
        np.testing.assert_allclose(np.asarray(here.x), mine, rtol=0, atol=1e-12)
        assert here.calls == whole.calls, (here.calls, whole.calls)
        assert abs(here.fun - whole.fun) <= 1e-12

    # What one rank refuses, all ranks refuse.
    bad = Term(lambda x: (0.0, np.full(2, np.nan if comm.rank == 2 else 0.1)), n=2, L=1.0)
    assert Gossip(comm, bad, "ring").minimize().status.name == "NON_FINITE"
    with pytest.raises(ValueError, match="over MPI"):
        Gossip(comm, bad, "ring").minimize(method="pqn")
    if comm.rank == 0:
        print(f"compared {len(OVER_MPI)} runs")


if __name__ == "__main__":
    main()

"""One real cluster of four worker processes for all tests."""

import pytest


@pytest.fixture(scope="session")
def client():
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=4, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client

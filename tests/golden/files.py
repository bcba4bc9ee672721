"""Ten pairs of files as users have them, and the commands that are run on them."""

from pathlib import Path

import numpy as np

from tests.golden.tasks import Task, draw

NAMES = np.array(["ant", "bee", "cow"])
DATA = Task("files", 3, 300, 360, seed=20)
TWO = Task("two", 2, 300, 300, seed=21)


def write_files(folder: Path) -> None:
    """Write the files into a folder; what they hold is drawn from a seed."""
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.parquet

    data, two = draw(DATA), draw(TWO)
    rng = np.random.default_rng(0)
    for name, proba, y in (
        ("val", data.y_proba_val, data.y_val),
        ("target", data.y_proba, data.y),
    ):
        columns = {f"p_{c}": proba[:, k] for k, c in enumerate(NAMES)}
        label = {"label": NAMES[y]} if name == "val" else {}
        some = {"truth": np.where(rng.random(len(y)) < 0.3, NAMES[y], "")}
        write_csv(folder / f"{name}.csv", columns | label)
        table = pa.table({key: pa.array(value) for key, value in (columns | label).items()})
        pa.parquet.write_table(table, folder / f"{name}.parquet")
        pa.feather.write_feather(table, str(folder / f"{name}.feather"))
        arrays = {"y_proba": proba} | ({"y": y} if label else {})
        np.savez(folder / f"{name}.npz", **arrays)
        np.save(folder / f"{name}.npy", proba)
        np.save(folder / f"{name}_labels.npy", y)
        logits = {key: np.log(value + 1e-12) for key, value in columns.items()}
        write_csv(folder / f"{name}_logits.csv", logits | label)
        write_csv(folder / f"{name}_decided.csv", {"said": NAMES[proba.argmax(axis=1)]} | label)
        rounded = {key: value.round(2) for key, value in columns.items()}
        write_csv(folder / f"{name}_rounded.csv", rounded | label)
        when = {"day": np.array([f"2024-03-{1 + row // 40:02d}" for row in range(len(y))])}
        site = {"site": np.array(["north", "south", "west"])[np.arange(len(y)) % 3]}
        write_csv(folder / f"{name}_rich.csv", when | site | columns | (label or some))
    for name, proba, y in (
        ("val", two.y_proba_val, two.y_val),
        ("target", two.y_proba, two.y),
    ):
        label = {"label": np.array(["no", "yes"])[y]} if name == "val" else {}
        write_csv(folder / f"{name}_score.csv", {"score": proba[:, 1]} | label)
    costs = "true,ant,bee,cow\nant,0,1,4\nbee,1,0,1\ncow,6,2,0\n"
    (folder / "costs.csv").write_text(costs, encoding="utf-8")


def write_csv(path: Path, columns: dict) -> None:
    """Write a table, its numbers with all their digits."""
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    lines = [",".join(columns), *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


PAIRS = {
    "csv": "--validation val.csv --target target.csv",
    "parquet": "--validation val.parquet --target target.parquet",
    "feather": "--validation val.feather --target target.feather",
    "npz": "--validation val.npz --target target.npz",
    "npy": "--validation val.npy --labels val_labels.npy --target target.npy",
    "logits": "--validation val_logits.csv --target target_logits.csv --logits",
    "decisions": "--validation val_decided.csv --target target_decided.csv --predicted-column said",
    "rounded": "--validation val_rounded.csv --target target_rounded.csv --renormalise",
    "score": "--validation val_score.csv --target target_score.csv --positive-class yes",
    "rich": "--validation val_rich.csv --target target_rich.csv",
}
SURE = "--confidence-level 0.9"
RICH = PAIRS["rich"]

BINARY = ("parquet", "npz")

COMMANDS: list[tuple[str, bool]] = [
    *((f"estimate {pair} --method cm-l {SURE} --json", False) for pair in PAIRS.values()),
    *(
        (f"adapt {pair} --method cm-l --output out.{kind if kind in BINARY else 'csv'}", False)
        for kind, pair in PAIRS.items()
        if kind not in ("feather", "npy")
    ),
    *((f"test {pair} --resamples 99 --json", False) for pair in PAIRS.values()),
    *(
        (f"check {file}", False)
        for file in ("val.csv", "val.parquet", "val.npz", "val_rich.csv", "val_logits.csv --logits")
    ),
    *(
        (f"estimate {PAIRS['csv']} --method {method} --json", False)
        for method in ("em", "map", "scm-l", "scm-m", "bbse-s", "rlls", "gls", "em-bcts")
    ),
    (f"estimate {PAIRS['csv']} --method scm-l", False),
    (f"estimate {RICH} --method ppi --target-label-column truth {SURE} --json", False),
    (f"estimate {PAIRS['csv']} --method em --source-priors ant=1,bee=1,cow=2 --json", False),
    (
        f"adapt {PAIRS['csv']} --known-priors ant=1,bee=1,cow=2 --source-priors ant=1,bee=1,cow=1"
        " --output out.csv",
        False,
    ),
    (f"groups {RICH} --group-column site --method scm-l {SURE} --json", False),
    (f"groups {RICH} --group-column site --method em", False),
    (f"monitor {RICH} --time-column day --every day --json", False),
    (f"monitor {RICH} --time-column day --every day", False),
    (f"monitor {PAIRS['csv']} --every 60 --json", False),
    ("prevalence --positives 120 --n 1000 --sensitivity 0.9 --specificity 0.95 --json", False),
    ("prevalence --positives 120 --n 1000 --sensitivity 0.9 --specificity 0.95", False),
    ("plan --width 0.04 --json", False),
    ("plan --width 0.04 --validation val.csv --json", False),
    (f"estimate {PAIRS['csv']} --method nonsense", False),
    ("estimate --validation val.csv --target absent.csv", False),
    *((f"assess {pair} --json", True) for pair in PAIRS.values()),
    (f"assess {PAIRS['csv']}", True),
    (f"assess {PAIRS['csv']} --costs costs.csv --json", True),
    (f"assess {PAIRS['csv']} --goal balanced_accuracy --json", True),
    (f"estimate {PAIRS['csv']} {SURE} --json", True),
    (f"adapt {PAIRS['csv']} --output out.csv", True),
    (f"adapt {PAIRS['score']} --output out.csv", True),
    (f"groups {RICH} --group-column site --json", True),
    (f"compare {PAIRS['csv']} --json", True),
    (f"compare {PAIRS['decisions']} --json", True),
    (f"report {PAIRS['csv']} --output report.html --json", True),
    ("demo --json", True),
]

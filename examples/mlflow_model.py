"""Log a classifier that adapts its predictions as an MLflow model, and load it again.

    pip install mlflow-skinny
    python examples/mlflow_model.py FOLDER

A `PriorAdaptedClassifier` is a scikit-learn classifier, so `mlflow.sklearn` saves it. With
`pyfunc_predict_fn="predict_proba"` its generic interface returns adapted probabilities instead of
labels. The adapter lies beside the model as JSON, for those who serve without MLflow.
"""

import sys
from pathlib import Path

import mlflow
import numpy as np
from sklearn.linear_model import LogisticRegression

import priorshift as ps


def fitted(seed: int = 0) -> tuple[ps.PriorAdaptedClassifier, np.ndarray]:
    """Train on balanced classes, and adapt to a target where one in ten is positive."""
    rng = np.random.default_rng(seed)

    def draw(n: int, positive: float) -> tuple[np.ndarray, np.ndarray]:
        y = (rng.random(n) < positive).astype(int)
        return rng.normal(size=(n, 3)) + y[:, None], y

    classifier = ps.PriorAdaptedClassifier(LogisticRegression(), cv=5).fit(*draw(2000, 0.5))
    target, _ = draw(3000, 0.1)
    return classifier.adapt(target), target


def save(classifier: ps.PriorAdaptedClassifier, folder: Path) -> None:
    mlflow.sklearn.save_model(
        classifier,
        folder,
        pyfunc_predict_fn="predict_proba",
        serialization_format="cloudpickle",
        pip_requirements=[f"priorshift=={ps.__version__}", "scikit-learn", "numpy"],
    )
    classifier.shift_.adapter.to_json(folder / "adapter.json")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    classifier, target = fitted()
    save(classifier, folder)
    model = mlflow.pyfunc.load_model(str(folder))
    print(classifier.target_priors_)
    print(model.predict(target[:3]))

"""Fashion-MNIST with a long tail: trained in summer, used in winter."""

from importlib.resources import files

from priorshift.datasets._archive import read_archive
from priorshift.datasets._shifted import ShiftedPredictions


def load_fashion_lt() -> ShiftedPredictions:
    """Load a network's predictions on Fashion-MNIST, trained in summer and used in winter.

    The network was trained on a long-tailed draw of the training images: 4500 T-shirts, 100 times
    as many as coats. Validation (3723 samples) is a held-out draw of the same balance. The target
    (5085 test images) has the classes in reverse: coats are the most frequent and T-shirts the
    rarest, 1 to 5. `print(load_fashion_lt().description)` tells the origin; `python -m
    priorshift.datasets.make_fashion_lt --images FOLDER` makes the file again.

    Returns
    -------
    ShiftedPredictions

    Examples
    --------
    >>> import priorshift as ps
    >>> from priorshift.datasets import load_fashion_lt
    >>> data = load_fashion_lt()
    >>> data.classes[:4].tolist()
    ['T-shirt/top', 'Trouser', 'Pullover', 'Dress']
    >>> unadapted = data.classes[data.y_proba_target.argmax(axis=1)]

    >>> scml = ps.SCML().fit(
    ...     data.y_proba_val, data.y_val, source_priors=data.source_priors, classes=data.classes
    ... )
    >>> adapted = data.classes[scml.adapt(data.y_proba_target).argmax(axis=1)]
    >>> bool((adapted == data.y_target).mean() > (unadapted == data.y_target).mean() + 0.15)
    True
    """
    archive = files("priorshift.datasets").joinpath("fashion_lt.npz")
    with archive.open("rb") as file:
        return read_archive(file)

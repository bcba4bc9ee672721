"""What each method does, in a few words, and where it was published."""

from typing import NamedTuple


class Reference(NamedTuple):
    """A paper and its address."""

    text: str
    url: str


GUIDE = Reference(
    "The Hitchhiker’s Guide to Prior-Shift Adaptation, 2021", "https://arxiv.org/abs/2106.11695"
)
_SAERENS = Reference(
    "Saerens, Latinne and Decaestecker, 2002", "https://doi.org/10.1162/089976602753284446"
)
_SULC = Reference("Sulc and Matas, 2018", "https://arxiv.org/abs/1805.08235")
_LIPTON = Reference("Lipton, Wang and Smola, 2018", "https://arxiv.org/abs/1802.03916")
_AZIZZADENESHELI = Reference("Azizzadenesheli et al., 2019", "https://arxiv.org/abs/1903.09734")
_TIAN = Reference("Tian, Zhang and Zhao, 2023", "https://arxiv.org/abs/2305.19123")
_ALEXANDARI = Reference(
    "Alexandari, Kundaje and Shrikumar, 2020", "https://arxiv.org/abs/1901.06852"
)

KNOWN = "known"
"""Method of an estimate that is none: its priors were given."""

TRUSTING = ("em", "map", "mapls", "em-labels")
"""Methods that take the predicted probabilities for calibrated."""

CALIBRATION = Reference("Guo et al., 2017", "https://arxiv.org/abs/1706.04599")

_DECISIONS = "inverts the confusion matrix of {} decisions, then clips to the simplex"
_LIKELIHOOD = "maximises the likelihood of {} decisions under the confusion matrix"
_POSTERIOR = "maximises the posterior of {} decisions under the confusion matrix and a hyper-prior"
_CALIBRATED = "calibrates the probabilities by {}, then maximises their likelihood"

METHODS: dict[str, tuple[str, Reference]] = {
    KNOWN: ("takes target priors that were given; nothing is estimated", GUIDE),
    "auto": (
        "calibrates, estimates, shrinks towards the source priors as far as the evidence supports, "
        "and adapts only where that is expected to help",
        _ALEXANDARI,
    ),
    "na": ("leaves the predictions alone", GUIDE),
    "cm": (_DECISIONS.format("hard"), _SAERENS),
    "scm": (_DECISIONS.format("soft"), GUIDE),
    "cm-l": (_LIKELIHOOD.format("hard"), GUIDE),
    "scm-l": (_LIKELIHOOD.format("soft"), GUIDE),
    "cm-m": (_POSTERIOR.format("hard"), GUIDE),
    "scm-m": (_POSTERIOR.format("soft"), GUIDE),
    "em": ("maximises the likelihood of the predicted probabilities", _SAERENS),
    "map": ("maximises the posterior of the predicted probabilities under a hyper-prior", _SULC),
    "bbse": ("inverts the joint confusion matrix of hard decisions for the ratio", _LIPTON),
    "bbse-s": ("inverts the joint confusion matrix of soft decisions for the ratio", _LIPTON),
    "rlls": ("fits the ratio by regularised least squares", _AZIZZADENESHELI),
    "elsa": ("matches moments of validation and target, rows weighted by what they tell", _TIAN),
    "mapls": (
        "maximises the likelihood of the predicted probabilities, pulled towards equal priors as "
        "far as the data suggest",
        _SULC,
    ),
    "joint": (
        "maximises the likelihood of hard decisions over the priors and the confusion matrix",
        GUIDE,
    ),
    "gls": (
        "inverts the confusion matrix of soft decisions by weighted least squares, shrunk towards "
        "the source priors as far as the evidence supports",
        GUIDE,
    ),
    "em-labels": (
        "maximises the likelihood of the predicted probabilities and of the labels that are known",
        _SAERENS,
    ),
    "em-bcts": (_CALIBRATED.format("a temperature and a bias a class"), _ALEXANDARI),
    "em-ts": (_CALIBRATED.format("a temperature"), _ALEXANDARI),
    "em-vs": (_CALIBRATED.format("a scale and a bias a class"), _ALEXANDARI),
    "scm-l-shrunk": (
        "maximises the likelihood of soft decisions under a confusion matrix shrunk towards the "
        "classifier’s own account of it",
        GUIDE,
    ),
}


def description(method: str) -> str:
    """Say what a method does; nothing of one that is not known here."""
    return METHODS[method][0] if method in METHODS else ""


def references(method: str, *, calibration: bool) -> list[Reference]:
    """List the papers that bear on a report."""
    found = [GUIDE, *([METHODS[method][1]] if method in METHODS else [])]
    return list(dict.fromkeys([*found, *([CALIBRATION] if calibration else [])]))

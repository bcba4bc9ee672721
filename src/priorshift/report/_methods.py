"""What a report says about a method: what it does, and where it was published."""

from priorshift.estimators import Reference, traits_of

GUIDE = Reference(
    "The Hitchhiker’s Guide to Prior-Shift Adaptation, 2021", "https://arxiv.org/abs/2106.11695"
)
CALIBRATION = Reference("Guo et al., 2017", "https://arxiv.org/abs/1706.04599")

KNOWN = "known"
"""Method of an estimate that is none: its priors were given."""


def description(method: str) -> str:
    """Say what a method does; nothing about one that is not registered."""
    if method == KNOWN:
        return "takes target priors that were given; nothing is estimated"
    return traits_of(method).summary


def references(method: str, *, calibration: bool) -> list[Reference]:
    """List the papers that a report cites."""
    papers = (GUIDE, traits_of(method).reference, CALIBRATION if calibration else None)
    return list(dict.fromkeys(paper for paper in papers if paper is not None))

"""Which methods stand for the others where the code that is tested is shared by all of them."""

ROADS = ("na", "auto", "bbse", "scm-l", "em", "em-bcts", "elsa", "mean")
"""One method per road: no estimate, a choice, hard and soft counts, rows, calibrated, the rest."""

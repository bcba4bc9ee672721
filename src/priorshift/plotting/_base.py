"""What every display is: numbers that can be drawn, and the memory of where they were."""

from typing import TYPE_CHECKING, Literal

from priorshift.plotting.style import require_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


class Display:
    """Remember the axes that were drawn on, as `ax_` and `figure_`."""

    ax_: "Axes"
    figure_: "Figure | SubFigure"

    def _axes(
        self,
        ax: "Axes | None",
        figsize: tuple[float, float],
        layout: Literal["constrained", "compressed"] = "constrained",
    ) -> "Axes":
        """Return the axes given, or those of a new pyplot figure; else pyplot is not touched."""
        require_matplotlib()
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots(figsize=figsize, layout=layout)[1]
        self.ax_, self.figure_ = ax, ax.figure
        return ax

"""The tests' verdicts as sentences for a person."""

ENOUGH_POWER = 0.8


def rows(n: int) -> str:
    """Return a number of rows."""
    return "1 target row" if n == 1 else f"{n:,} target rows"


def p_text(p_value: float) -> str:
    """Return a p-value as it is written."""
    return f"p = {p_value:.3f}" if p_value < 0.0995 else f"p = {p_value:.2f}"


def shift_verdict(
    *,
    p_value: float,
    alpha: float,
    effect_size: float,
    effect_interval: tuple[float, float],
    power: float,
    alternative: float,
    detectable_effect: float | None,
    n_target: int,
) -> str:
    """Say whether there is a shift, how large, or what would have been seen."""
    if p_value <= alpha:
        low, high = effect_interval
        return (
            f"Evidence of a shift ({p_text(p_value)}): a distance of {effect_size:.2f} between "
            f"target and source priors ({low:.2f} to {high:.2f})."
        )
    nothing = f"No evidence of a shift ({p_text(p_value)})"
    if detectable_effect is None:
        return (
            f"{nothing}, but {rows(n_target)} and this validation set are too few to detect any: "
            "do not adapt."
        )
    seen = (
        f"with {rows(n_target)} a shift of {detectable_effect:.2f} would be seen 4 times out of 5"
    )
    if power >= ENOUGH_POWER:
        return f"{nothing}; {seen}."
    return (
        f"{nothing}, but a shift of {alternative:.2f} would be seen with probability {power:.2f} "
        f"only ({seen}): too few samples to tell, do not adapt."
    )


def assumption_verdict(p_value: float | None, alpha: float) -> str:
    """Say whether a change of priors explains the target."""
    if p_value is None:
        return (
            "Too few samples to check whether only the priors changed: validation has too few of "
            "the classes that the target has, or none is predicted often enough."
        )
    if p_value <= alpha:
        return (
            f"The target is not explained by a change of priors alone ({p_text(p_value)}): how "
            "confident the classifier is within its decisions changed too, so p(x|y) moved. "
            "Estimated priors may be wrong; look at the data before you adapt."
        )
    return f"A change of priors alone explains the target ({p_text(p_value)})."

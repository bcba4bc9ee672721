"""priorshift: estimate, judge and adapt to a shift of class priors."""

from priorshift._version import __version__ as __version__

TYPE_CHECKING = False  # as type checkers know it: importing typing takes time
if TYPE_CHECKING:
    from priorshift._public import *  # noqa: F403

    __all__: list[str]
else:

    def __getattr__(name: str) -> object:
        """Import all public names when the first is asked for, and stand back from then on.

        Until then nothing is imported, so that the command `priorshift` runs from the first moment,
        and can answer Ctrl-C while NumPy and SciPy are still on their way.
        """
        if name != "_public" and (not name.startswith("__") or name == "__all__"):
            from priorshift import _public

            names, offered = globals(), vars(_public).items()
            public = {key: value for key, value in offered if not key.startswith("_")}
            names.update(public)
            names["__all__"] = sorted({*public, "__version__"} - {"datasets", "plotting"})
            if name in names:
                return names[name]
        raise AttributeError(f"module 'priorshift' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})


del TYPE_CHECKING

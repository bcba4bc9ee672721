"""What an estimate is worth: conditioning, confusable classes, expected accuracy."""

from priorshift.diagnostics._diagnose import diagnose
from priorshift.diagnostics._result import Diagnostics, Expected

__all__ = ["Diagnostics", "Expected", "diagnose"]

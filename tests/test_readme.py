"""The README's examples run."""

import doctest
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_examples_of_the_readme_run():
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    results = doctest.testfile(str(README), module_relative=False, optionflags=flags)
    assert results.attempted > 10
    assert results.failed == 0

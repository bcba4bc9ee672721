"""Compare with what is frozen, or freeze anew.

python -m tests.golden [PART ...]                       compare all tasks
python -m tests.golden PART ... --update --because WHY  store what is found, and note why
"""

import argparse
import sys
import time

from tests.golden.parts import PARTS, differences
from tests.golden.store import CHANGES, load, save, tolerance


def main() -> int:
    """Say what differs; 1 if anything does and it is not stored."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--update", action="store_true", help="store what is found")
    parser.add_argument("--because", help="why the numbers change; needed by --update")
    options = parser.parse_args()
    if options.update and not options.because:
        parser.error("--update needs --because: say why the numbers change")
    changed = 0
    for part in options.parts or PARTS:
        start = time.perf_counter()
        found, stored = PARTS[part](False), load(part)
        found_differences = list(differences(stored, found, tolerance=tolerance(part)))
        new = found.keys() - stored.keys()
        print(f"{part}: {len(found)} tasks, {time.perf_counter() - start:.0f} s", end="; ")
        print(f"{len(found_differences)} differences, {len(new)} new tasks")
        print(*found_differences[:40], sep="\n")
        changed += len(found_differences)
        if options.update:
            save(part, found)
            with CHANGES.open("a", encoding="utf-8") as file:
                print(
                    f"- `{part}` ({len(found_differences)} numbers): {options.because}", file=file
                )
    return int(changed > 0 and not options.update)


if __name__ == "__main__":
    sys.exit(main())

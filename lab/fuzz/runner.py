"""Run the fuzzer: hostile inputs for every public entry point.

    python -m lab fuzz [--calls 2000] [--relations N] [--commands N] [--seed N] [--seconds N]
        [--case call:381]

Each input must be answered well, or refused in words. By default there are a tenth as many
relations as calls, a quarter as many command lines, and a new seed. `--seconds` stops after so
long, whatever is left; `--case` runs one case alone, which its seed and name determine, and shows
all of it. The exit code is 10 if a case failed.
"""

import re
import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from lab.fuzz import relations
from lab.fuzz.commands import COMMANDS, run_command
from lab.fuzz.entries import ENTRIES, World
from lab.fuzz.outcomes import Outcome, judge
from lab.show import parse

FOUND = 10
"""Exit code if a case failed, which no fuzzer returns that cannot start."""


def main(arguments: list[str] | None = None) -> int:
    """Run cases until all are done or the time is up; return `FOUND` if any failed."""
    options = parse(
        __doc__,
        arguments,
        calls=2000,
        commands=int,
        relations=int,
        seed=int,
        seconds=float,
        case=str,
    )
    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    if options.case:
        outcome = run_case(seed, options.case, verbose=True)
        print(outcome.failure or outcome.kind)
        return FOUND if outcome.failure else 0
    few, some = options.relations, options.commands
    numbers = {
        "call": options.calls,
        "relation": options.calls // 10 if few is None else few,
        "command": options.calls // 4 if some is None else some,
    }
    print(f"seed {seed}", flush=True)
    report = Report(seed)
    start = time.monotonic()
    for case in schedule(numbers):
        if options.seconds is not None and time.monotonic() - start > options.seconds:
            break
        report.add(case, run_case(seed, case))
    print(report.text())
    return FOUND if report.failures else 0


KINDS: dict[str, Mapping[str, Any]] = {
    "call": ENTRIES,
    "relation": relations.RELATIONS,
    "command": COMMANDS,
}


def schedule(numbers: Mapping[str, int]) -> Iterator[str]:
    """Yield the names of cases, the kinds in turn, so that any part of them has all kinds."""
    total = sum(numbers.values())
    done = dict.fromkeys(numbers, 0)
    for at in range(1, total + 1):
        kind = min(numbers, key=lambda k: (done[k] + 1) * total / max(numbers[k], 1e-9) - at)
        yield f"{kind}:{done[kind]}"
        done[kind] += 1


def what_is(case: str) -> tuple[str, str, int]:
    """Return the kind of a case, the entry it calls and its number."""
    kind, _, number = case.partition(":")
    if kind not in KINDS or not number.isdecimal():
        raise SystemExit(f"a case is one of {', '.join(KINDS)} with a number: call:381")
    entries = list(KINDS[kind])
    return kind, entries[int(number) % len(entries)], int(number)


def run_case(seed: int, case: str, *, verbose: bool = False) -> Outcome:
    """Run one case, which its seed and name determine."""
    kind, entry, number = what_is(case)
    rng = np.random.default_rng([seed, list(KINDS).index(kind), number])
    if kind == "command":
        return judge(lambda: run_command(entry, rng, verbose=verbose))
    if kind == "relation":
        return _related(entry, rng)
    world = World(rng)

    def call() -> Any:
        answer = ENTRIES[entry](world)
        world.require_untouched()
        return answer

    outcome = judge(call)
    if verbose:
        print(f"{case} is {entry}\n{world.describe()}\n{outcome.detail}")
    return outcome


def _related(entry: str, rng: np.random.Generator) -> Outcome:
    skipped: list[str] = []

    def relate() -> None:
        try:
            relations.RELATIONS[entry](relations.draw(rng))
        except relations.SkippedError as reason:
            skipped.append(str(reason))

    outcome = judge(relate)
    if outcome.kind == "refused":
        return Outcome("fault", f"good data were refused: {outcome.detail}")
    return Outcome(f"skipped, {skipped[0]}") if skipped else outcome


class Report:
    """How cases ended, and the failures by cause."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.ends: Counter[tuple[str, str]] = Counter()
        self.failures: dict[str, list[str]] = defaultdict(list)

    def add(self, case: str, outcome: Outcome) -> None:
        """Count a case; tell of a failure at once, with the command that repeats it."""
        kind, entry, _ = what_is(case)
        self.ends[kind, "failed" if outcome.failure else outcome.kind] += 1
        if outcome.failure:
            self.failures[cause(outcome.failure)].append(case)
            again = f"make fuzz SEED={self.seed} CASE={case}"
            print(f"FAILED {entry}: {outcome.failure}\n  {again}", flush=True)

    def text(self) -> str:
        """Say how many ended how, and which causes failures had."""
        lines = [f"seed {self.seed}"]
        for kind in KINDS:
            ends = [f"{n} {end}" for (k, end), n in sorted(self.ends.items()) if k == kind]
            lines.append(f"  {kind}s: {', '.join(ends) or 'none'}")
        for why, cases in sorted(self.failures.items(), key=lambda item: -len(item[1])):
            lines.append(f"  {len(cases)} x {why} ({cases[0]})")
        return "\n".join(lines)


def cause(failure: str) -> str:
    """Return what failures of one cause have in common: the text without its numbers."""
    return re.sub(r"[-+]?\d[\d.e+-]*|'[^']*'", "#", failure)[:220]

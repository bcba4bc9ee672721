"""Run the fuzzer: `python -m fuzz --calls 20000 --seed 7`, or one case of it: `--case call:381`."""

import argparse
import secrets
import sys
import time

from fuzz.runner import Report, run_case, schedule


def main() -> int:
    """Run cases until all are done or the time is up; return 1 if any failed."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--calls", type=int, default=2000, help="library calls")
    parser.add_argument("--commands", type=int, help="command lines [default: a quarter of calls]")
    parser.add_argument("--relations", type=int, help="relations [default: a tenth of calls]")
    parser.add_argument("--seed", type=int, help="of all cases [default: a new one]")
    parser.add_argument("--seconds", type=float, help="stop after so long, whatever is left")
    parser.add_argument("--case", help="run this one alone, such as call:381, and show all of it")
    given = parser.parse_args()
    seed = secrets.randbelow(10**6) if given.seed is None else given.seed
    if given.case:
        outcome = run_case(seed, given.case, verbose=True)
        print(outcome.failure or outcome.kind)
        return int(outcome.failure is not None)
    numbers = {
        "call": given.calls,
        "relation": given.calls // 10 if given.relations is None else given.relations,
        "command": given.calls // 4 if given.commands is None else given.commands,
    }
    print(f"seed {seed}", flush=True)
    report = Report(seed)
    end = None if given.seconds is None else time.monotonic() + given.seconds
    for case in schedule(numbers):
        if end is not None and time.monotonic() > end:
            break
        report.add(case, run_case(seed, case))
    print(report.text())
    return int(bool(report.failures))


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
"""python3 -m tests MODULE...: run unittest modules of this directory and print KTAP."""

import faulthandler
import logging
import sys
import unittest
import warnings
from types import TracebackType

ExcInfo = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]

# Seconds after which a test hangs, and the run ends.
PATIENCE = 120

# What went wrong where no exception can be raised, a wheel that nobody closed, say.
UNRAISABLE: list[str] = []


def unraisable(what: "sys.UnraisableHookArgs") -> None:
    UNRAISABLE.append(repr(what))
    print(f"# {what.exc_value!r} in {what.object!r}")


class KtapResult(unittest.TestResult):
    """Print one line per test, after the traceback of a failure."""

    def _line(self, verdict: str, test: unittest.TestCase, note: str = "") -> None:
        name = test.id().rpartition(".")[2]
        print(f"{verdict} {self.testsRun} {name}{note}", flush=True)

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        faulthandler.dump_traceback_later(PATIENCE, exit=True)

    def addSuccess(self, test: unittest.TestCase) -> None:
        self._line("ok", test)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self._line("ok", test, f" # SKIP {reason}")

    def addFailure(self, test: unittest.TestCase, err: ExcInfo) -> None:
        super().addFailure(test, err)
        for line in self.failures[-1][1].splitlines():
            print(f"# {line}")
        self._line("not ok", test)

    def addError(self, test: unittest.TestCase, err: ExcInfo) -> None:
        self.addFailure(test, err)


def main() -> int:
    warnings.simplefilter("error", ResourceWarning)
    sys.unraisablehook = unraisable
    logging.getLogger("asyncio").setLevel(logging.ERROR)    # a machine may be slow
    suite = unittest.defaultTestLoader.loadTestsFromNames(
        [f"tests.{name}" for name in sys.argv[1:]])
    print(f"KTAP version 1\n1..{suite.countTestCases()}", flush=True)
    result = KtapResult()
    suite.run(result)
    return 0 if result.wasSuccessful() and not UNRAISABLE else 1


if __name__ == "__main__":
    sys.exit(main())

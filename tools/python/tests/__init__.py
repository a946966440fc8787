# SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
"""Tests: python3 -W error::ResourceWarning -m unittest tests.MODULE..."""

import faulthandler
import logging
import os
import sys
import threading
from collections.abc import Callable

from twheel import Wheel

HOUR = 3600
PATIENCE = 20
"""No promise of the device: only so that a lost event ends the test."""

CLOSES: list[Callable[[Wheel], None]] = [
    Wheel.close, lambda wheel: threading.Thread(target=wheel.close).start()]


def unraisable(what: "sys.UnraisableHookArgs") -> None:
    """Fail where no exception can be raised: for a wheel that nobody closed, say."""
    print(f"{what.exc_value!r} in {what.object!r}", file=sys.stderr, flush=True)
    os._exit(1)


def in_a_child(function: Callable[[], None]) -> None:
    child = os.fork()
    if not child:
        try:
            function()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0, "the child has failed"


sys.unraisablehook = unraisable
faulthandler.dump_traceback_later(600, exit=True)       # a test hangs
logging.getLogger("asyncio").setLevel(logging.ERROR)    # a machine may be slow

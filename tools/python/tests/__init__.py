# SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
"""Tests: python3 -W error::ResourceWarning -m unittest tests.MODULE..."""

import faulthandler
import logging
import os
import sys


def unraisable(what: "sys.UnraisableHookArgs") -> None:
    """Fail where no exception can be raised: for a wheel that nobody closed, say."""
    print(f"{what.exc_value!r} in {what.object!r}", file=sys.stderr, flush=True)
    os._exit(1)


sys.unraisablehook = unraisable
faulthandler.dump_traceback_later(600, exit=True)       # a test hangs
logging.getLogger("asyncio").setLevel(logging.ERROR)    # a machine may be slow

# SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
"""Tests that need no device."""

import ctypes
import inspect
import os
import re
import subprocess
import tempfile
import unittest
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from unittest import mock

from twheel import (Cell, Operation, Outcome, Wheel, _lib, _pycell, after, after_ns, at_ns, every,
                    every_ns, seconds)

TOOLS = Path(__file__).parents[2]

STRUCTURES = {
    re.sub("(?=[A-Z])", "_", f"twheel{name}").lower(): value
    for name, value in vars(_lib).items()
    if isinstance(value, type) and issubclass(value, ctypes.Structure) and value is not _lib.Gate
}

CONSTANTS = {f"TWHEEL_{name}": value for name, value in vars(_lib).items()
             if name.isupper() and type(value) is int}
CONSTANTS |= {"TWHEEL_WITHDRAWN": Outcome.WITHDRAWN, "TWHEEL_IDLE": Outcome.IDLE}


def in_c(expressions: list[str]) -> list[int]:
    """What a C compiler takes the expressions for."""
    lines = "".join(f'printf("%lld\\n", (long long)({text}));' for text in expressions)
    source = ("#include <libtwheel.h>\n#include <stddef.h>\n#include <stdio.h>\n"
              f"int main(void) {{ {lines} return 0; }}")
    with tempfile.TemporaryDirectory() as directory:
        program = f"{directory}/program"
        subprocess.run(["gcc", "-I", TOOLS / "lib", "-x", "c", "-o", program, "-"],
                       input=source.encode(), check=True)
        output = subprocess.run([program], stdout=subprocess.PIPE, check=True).stdout
    return [int(line) for line in output.split()]


class Layout(unittest.TestCase):
    def test_structures_are_those_of_the_header(self) -> None:
        texts, expected = [], []
        for name, structure in STRUCTURES.items():
            texts.append(f"sizeof(struct {name})")
            expected.append(ctypes.sizeof(structure))
            for field, *_ in structure._fields_:
                place = getattr(structure, field)
                texts += [f"offsetof(struct {name}, {field})",
                          f"sizeof(((struct {name} *)0)->{field})"]
                expected += [place.offset, place.size]
        self.assertIn("sizeof(struct twheel_cancel_all)", texts)
        self.assertEqual(dict(zip(texts, in_c(texts))), dict(zip(texts, expected)))

    def test_constants_are_those_of_the_headers(self) -> None:
        self.assertIn("TWHEEL_OP_ARM", CONSTANTS)
        for (name, value), number in zip(CONSTANTS.items(), in_c(list(CONSTANTS))):
            self.assertEqual(number % 2**64, value % 2**64, name)

    def test_missing_library_is_an_import_error_with_a_remedy(self) -> None:
        with (mock.patch("ctypes.CDLL", side_effect=OSError("no such file")),
              self.assertRaisesRegex(ImportError, "no such file.*libtwheel1.*pip install")):
            _lib.load(ctypes.CDLL)

    def test_library_is_the_one_that_is_built(self) -> None:
        makefile = (TOOLS / "Makefile").read_text()
        version = re.search(r"^LIB_VERSION := (\d+)", makefile, re.M)
        assert version
        self.assertEqual(_lib.SONAME, f"libtwheel.so.{version[1]}")

    def test_extension_has_the_docstrings_of_the_other_cells(self) -> None:
        for name in ("arm", "cancel"):
            ours, theirs = getattr(Cell, name), getattr(_pycell.Exchange, name)
            self.assertEqual(inspect.getdoc(ours), inspect.getdoc(theirs))
            self.assertEqual(list(inspect.signature(ours).parameters),
                             list(inspect.signature(theirs).parameters))


class Times(unittest.TestCase):
    def test_seconds_are_rounded_up_exactly(self) -> None:
        for value in (0, 1, 0.5, 0.1, 1e-9, 1e-12, 86400.000000001, 1234567.89, 9.2e9):
            exact = Fraction(value) * 10**9
            self.assertGreaterEqual(seconds(value), exact)
            self.assertLess(seconds(value), exact + 1)

    def test_what_is_no_time_is_refused(self) -> None:
        for value in (float("inf"), float("nan"), 9.3e9):
            self.assertRaises(ValueError, seconds, value)
        self.assertRaises(ValueError, at_ns, 2**63)
        self.assertEqual(at_ns(2**63 - 1).expires_ns, 2**63 - 1)

    def test_negative_time_is_due_at_once(self) -> None:
        self.assertEqual({seconds(-1), seconds(-1e-12), seconds(-float("inf")), seconds(-0.0)}, {0})
        self.assertEqual((after_ns(-1), at_ns(-1)), (after_ns(0), at_ns(0)))

    def test_repeat_has_limits(self) -> None:
        self.assertEqual(every(0.25, 3), every_ns(250_000_000, 3))
        for interval, times in ((0, 1), (1, -1), (1, 2**32)):
            self.assertRaises(ValueError, every, interval, times)


class Operations(unittest.TestCase):
    def test_arm_fills_in_every_field(self) -> None:
        raw = Operation.arm(after(1.5), 7, cell=True, slack_ns=5_000_999)._raw
        self.assertEqual((raw.opcode, raw.flags, raw.id, raw.expires_ns, raw.cookie, raw.slack_us),
                         (_lib.OP_ARM, _lib.F_CELL, 0, 1_500_000_000, 7, 5000))

    def test_mod_fills_in_every_field(self) -> None:
        raw = Operation.mod(9, at_ns(5), repeat=every(2, 3, fixed_delay=True))._raw
        self.assertEqual((raw.opcode, raw.id, raw.expires_ns, raw.interval_ns, raw.repeat),
                         (_lib.OP_MOD, 9, 5, 2_000_000_000, 3))
        self.assertEqual(raw.flags, _lib.F_ABS | _lib.F_FIXED_DELAY)

    def test_slack_is_never_more_than_asked_for(self) -> None:
        self.assertEqual(Operation.arm(1, slack_ns=2**62)._raw.slack_us, 2**32 - 1)
        for op in (Operation.arm(1, exact=True), Operation.mod(9, 1, exact=True)):
            self.assertEqual((op._raw.flags, op._raw.slack_us), (_lib.F_EXACT, 0))

    def test_ids_and_cookies_that_do_not_fit_are_refused(self) -> None:
        makers: list[Callable[[int], Operation]] = [
            Operation.cancel, Operation.get, lambda id: Operation.mod(id, 1),
            lambda cookie: Operation.arm(1, cookie)]
        for value in (-1, 2**64):
            for make in makers:
                self.assertRaises(ValueError, make, value)


class Opening(unittest.TestCase):
    def setUp(self) -> None:
        if Path("/dev/twheel").exists():
            self.skipTest("there is a device")
        self.enterContext(mock.patch.dict(os.environ))
        os.environ.pop("TWHEEL_BACKEND", None)

    def test_without_a_device_the_wheel_is_in_the_process(self) -> None:
        with Wheel() as wheel:
            self.assertTrue(wheel.info().process)

    def test_device_that_is_asked_for_is_named_with_a_remedy(self) -> None:
        with self.assertRaisesRegex(FileNotFoundError, "modprobe twheel_dev.*'/dev/twheel'"):
            Wheel(backend="kernel")

    def test_environment_overrides_the_backend(self) -> None:
        os.environ["TWHEEL_BACKEND"] = "process"
        with Wheel(backend="kernel") as wheel:
            self.assertTrue(wheel.info().process)
        os.environ["TWHEEL_BACKEND"] = "none"
        with self.assertRaisesRegex(OSError, "TWHEEL_BACKEND"):
            Wheel()

    def test_backend_that_does_not_exist_is_refused(self) -> None:
        self.assertRaises(ValueError, Wheel, backend="none")
        self.assertRaises(ValueError, Wheel, "/dev/twheel", backend="process")

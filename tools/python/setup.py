# SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
"""Puts libtwheel into the wheel of pip, so that users install nothing else.

TWHEEL_LIBRARY=system leaves it out, for a distribution that has a package of it.
"""

import os
import shutil
import subprocess
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:     # before setuptools 70.1
    from wheel.bdist_wheel import bdist_wheel

TOOLS = Path(__file__).resolve().parents[1]
LIBRARY = "libtwheel.so.1"
OWN = os.environ.get("TWHEEL_LIBRARY") != "system"


class BuildPy(build_py):
    def run(self):
        super().run()
        if OWN and not self.editable_mode:
            made = Path(self.get_finalized_command("build").build_temp).resolve()
            subprocess.run(["make", "-s", "-C", TOOLS, f"O={made}", made / LIBRARY], check=True)
            shutil.copy(made / LIBRARY, Path(self.build_lib, "twheel"))


class BdistWheel(bdist_wheel):
    def get_tag(self):
        """The library is for a processor, but for any release of Python."""
        return ("py3", "none", super().get_tag()[2])


class Package(Distribution):
    def has_ext_modules(self):
        return OWN


setup(distclass=Package, cmdclass={"build_py": BuildPy, "bdist_wheel": BdistWheel})

# SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
"""Puts libtwheel into the wheel of pip, so that users install nothing else, and builds the
extension for cells. An editable install has both beside the sources.

TWHEEL_LIBRARY=system leaves the library out, for a distribution that has a package of it. The
linker has to find that one. Without the headers of Python, or without a GIL, the package has no
extension, and does the same in Python.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Distribution, Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:     # before setuptools 70.1
    from wheel.bdist_wheel import bdist_wheel

HERE = Path(__file__).resolve().parent
# The top of the checkout, of which a source distribution has a part.
TOP = HERE / "source" if (HERE / "source").is_dir() else HERE.parents[1]
LICENSES = ("COPYING.LGPL", "COPYING.MIT")
SOURCES = ("tools/Makefile", "tools/lib", "include", "debian/libtwheel1.symbols", *LICENSES)
LIBRARY = "libtwheel.so.1"
OWN = os.environ.get("TWHEEL_LIBRARY") != "system"
FAST = sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")


class BuildExt(build_ext):
    def run(self):
        if OWN:
            made = Path(self.build_temp).resolve()
            subprocess.run(["make", "-s", "-C", TOP / "tools", f"O={made}", made / LIBRARY],
                           check=True)
            place = HERE / "twheel" if self.inplace else Path(self.build_lib, "twheel")
            shutil.copy(made / LIBRARY, place)
            for extension in self.extensions:
                extension.library_dirs.append(str(made))
        super().run()


class BdistWheel(bdist_wheel):
    def get_tag(self):
        """The files are for a processor, but for any later release of Python."""
        return (("cp311", "abi3") if FAST else ("py3", "none")) + (super().get_tag()[2],)

    def egg2dist(self, egginfo_path, distinfo_path):
        super().egg2dist(egginfo_path, distinfo_path)
        for name in LICENSES:
            shutil.copy(TOP / name, distinfo_path)


class Sdist(sdist):
    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        for source in SOURCES:
            target = Path(base_dir, "source", source)
            target.parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (TOP / source).is_dir() else shutil.copy
            copy(TOP / source, target)


class Package(Distribution):
    def has_ext_modules(self):
        return OWN or FAST


CELL = Extension(
    "twheel._cell", ["twheel/_cell.c"], include_dirs=[str(TOP / "tools/lib")], libraries=["m"],
    define_macros=[("Py_LIMITED_API", "0x030b0000")], py_limited_api=True,
    # libc is named although the extension calls no function of it: auditwheel asks which one it is.
    extra_link_args=[f"-l:{LIBRARY}", "-Wl,--no-as-needed", "-lc"],
    runtime_library_dirs=["$ORIGIN"] if OWN else [], optional=True)

setup(distclass=Package, ext_modules=[CELL] if FAST else [],
      cmdclass={"build_ext": BuildExt, "bdist_wheel": BdistWheel, "sdist": Sdist})

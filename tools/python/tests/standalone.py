# SPDX-License-Identifier: LGPL-2.1-or-later
"""python3 -m tests.standalone DIRECTORY MODULE...: what a test machine needs to run them.

Modules of this directory are imported, and what the interpreter has loaded then is put
into DIRECTORY as bytecode: the standard library's into lib, for PYTHONHOME, ours for
PYTHONPATH; shared libraries into so, for LD_LIBRARY_PATH. A machine that is emulated
should not have to compile anything.
"""

import importlib
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from twheel._lib import SONAME

# asyncio and shutil do without; they would bring libraries along.
UNUSED = ("bz2", "lzma", "ssl")

# Loaded when a test fails, or by the interpreter before it can say so.
LATE = ("concurrent.futures.thread", "difflib", "encodings.ascii", "encodings.latin_1",
        "runpy", "site", "traceback", "tests.__main__")

PROJECT = Path(__file__).parents[1]
STDLIB = Path(sysconfig.get_path("stdlib"))


def loaded() -> set[Path]:
    """The files of the modules that are loaded. One may be known by the name of another
    file than its own, which is looked for first all the same."""
    files = {Path(file) for module in sys.modules.values()
             if (file := getattr(module, "__file__", None))}
    named = {(STDLIB / name.replace(".", "/")).with_suffix(".py") for name in sys.modules}
    return files | {file for file in named if file.exists()}


def place(file: Path) -> Path:
    """Where a module's file goes."""
    if file.is_relative_to(PROJECT):
        return file.relative_to(PROJECT)
    return Path("lib", STDLIB.name) / file.relative_to(STDLIB)


def put(file: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".py":
        py_compile.compile(str(file), str(target) + "c", doraise=True,
                           invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    else:
        shutil.copy(file, target)


def shared_libraries(directory: Path) -> None:
    """What extension modules are linked with, and our library."""
    directory.mkdir()
    modules = [file for file in loaded() if file.suffix == ".so"]
    output = subprocess.run(["ldd", *modules], stdout=subprocess.PIPE, check=True).stdout.decode()
    for library in set(re.findall(r"=> (/\S+)", output)):
        shutil.copy(library, directory)
    [ours] = set(re.findall(r"/\S*/libtwheel\S+", Path("/proc/self/maps").read_text()))
    shutil.copy(ours, directory / SONAME)


def main() -> None:
    target = Path(sys.argv[1])
    for name in UNUSED:
        sys.modules[name] = None  # type: ignore[assignment]
    for name in (*LATE, *(f"tests.{name}" for name in sys.argv[2:])):
        importlib.import_module(name)
    for file in loaded():
        put(file, target / place(file))
    shared_libraries(target / "so")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
"""python3 -m tests.standalone DIRECTORY MODULE...: collect the files for a run of the modules in
a test machine.

This program imports the modules and puts all that the interpreter has loaded into DIRECTORY.
Bytecode of the standard library goes into lib, for PYTHONHOME, and ours goes beside it, for
PYTHONPATH. Shared libraries go into so, for LD_LIBRARY_PATH. Bytecode spares an emulated
machine the compilation.
"""

import importlib
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import twheel
from twheel._lib import SONAME

# asyncio and shutil do without; they would bring libraries along.
UNUSED = ("bz2", "lzma", "ssl")

# Modules that are loaded when a test fails, or by the interpreter itself.
LATE = ("concurrent.futures.thread", "difflib", "encodings.ascii", "encodings.latin_1",
        "runpy", "site", "traceback")

PROJECTS = (Path(__file__).parents[1], Path(twheel.__file__).parents[1])
STDLIB = Path(sysconfig.get_path("stdlib"))


def loaded() -> set[Path]:
    """Files of the loaded modules. A module may name another file than the one of its own name,
    but the import looks for the latter first. So both are included."""
    files = {Path(file) for module in sys.modules.values()
             if (file := getattr(module, "__file__", None))}
    named = {(STDLIB / name.replace(".", "/")).with_suffix(".py") for name in sys.modules}
    return files | {file for file in named if file.exists()}


def place(file: Path) -> Path:
    """Return the place of a module's file."""
    for project in PROJECTS:
        if file.is_relative_to(project):
            return file.relative_to(project)
    return Path("lib", STDLIB.name) / file.relative_to(STDLIB)


def put(file: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".py":
        py_compile.compile(str(file), str(target) + "c", doraise=True,
                           invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    else:
        shutil.copy(file, target)


def shared_libraries(directory: Path) -> None:
    """Copy our library, and the libraries of extension modules."""
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
    for name in (*LATE, *sys.argv[2:]):
        importlib.import_module(name)
    for file in loaded():
        put(file, target / place(file))
    shared_libraries(target / "so")


if __name__ == "__main__":
    main()

"""The first file the patient's interpreter runs: boot.py CONTROL.json SCRIPT [ARGUMENTS]. It loads the folder it lies
in under a name that no script uses, and hands over."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from types import ModuleType

PACKAGE = "_hotloop_inside"


def load(folder: str, part: str) -> ModuleType:
    """One module of the folder, as part of a package that needs no sys.path."""
    if PACKAGE not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            PACKAGE, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
        )
        assert spec is not None and spec.loader is not None
        package = importlib.util.module_from_spec(spec)
        sys.modules[PACKAGE] = package
        spec.loader.exec_module(package)
    return importlib.import_module("{}.{}".format(PACKAGE, part))


if __name__ == "__main__":
    load(os.path.dirname(os.path.abspath(__file__)), "running").main(sys.argv[1], sys.argv[2:])

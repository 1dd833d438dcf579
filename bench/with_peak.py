"""`with_peak.py REPORT ARGUMENT…` is `bridle ARGUMENT…`, with its peak memory in MiB written to REPORT at exit."""

from __future__ import annotations

import atexit
import sys

from measure import peak_mib


def _write_peak(path: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(str(peak_mib()))


if __name__ == "__main__":
    atexit.register(_write_peak, sys.argv[1])  # registered first, so it runs last
    from bridle.cli import main

    main(sys.argv[2:])

#!/usr/bin/env python3
"""Write the table of all settings into docs/settings.md.

python scripts/settings_page.py           exit 1 when the page is behind the declarations
python scripts/settings_page.py --write   bring it up to date
"""

from __future__ import annotations

import sys
from pathlib import Path

from bridle.app.user.setting_sections import TABLE
from bridle.config.setting_table import SettingTable
from bridle.config.settings_report import reference_page

PAGE = Path(__file__).resolve().parent.parent / "docs" / "settings.md"
HEADING = "## All settings\n"


def updated(page: str, table: SettingTable = TABLE) -> str:
    """Return the page with the table below its last heading."""
    head, _, _ = page.partition(HEADING)
    return f"{head}{HEADING}\n{reference_page(table)}"


def main() -> int:
    page = PAGE.read_text(encoding="utf-8")
    wanted = updated(page)
    if "--write" in sys.argv[1:]:
        PAGE.write_text(wanted, encoding="utf-8")
    elif page != wanted:
        print("docs/settings.md is behind: python scripts/settings_page.py --write", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

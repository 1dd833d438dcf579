#!/usr/bin/env -S python3 -S -E
"""A browser whose person agrees at once: opens the address it is given and goes where it is sent."""

import sys
import urllib.request

with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(sys.argv[1], timeout=30) as page:
    page.read()

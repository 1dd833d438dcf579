# Every command of a fresh clone. `make help` explains them.
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all test-peers check faults bench lock

PY := .venv/bin/python
STAMP := .venv/.ready
USABLE := .venv/.usable

help:  ## show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' Makefile

$(STAMP): requirements/dev.txt pyproject.toml scripts/setup
	@scripts/setup dev

$(USABLE): requirements/core.txt
	@scripts/setup user

unexport PYTHONDONTWRITEBYTECODE  # hundreds of tests start Bridle: compiled once is enough

setup: $(STAMP)  ## create .venv with pinned packages; leaves .venv/bin/bridle

demo: $(USABLE)  ## watch a real turn: a scripted model fixes a failing test in a scratch folder
	@.venv/bin/bridle demo

test: $(STAMP)  ## run the tests (Python and Debian packages only)
	@scripts/system-packages
	@$(PY) -m pytest -n 2 --dist loadgroup -m "not peers"

test-all: $(STAMP)  ## the same with everything: every random example and the long tests
	@scripts/system-packages
	@BRIDLE_TESTS=all $(PY) -m pytest -n 2 --dist loadgroup -m "not peers"

test-peers: $(STAMP)  ## run the tests against foreign clients and suites from npm
	@scripts/test-peers

check: $(STAMP)  ## format, lint, types, import layers, requirement manifest, unused words, names, sizes
	@scripts/check

faults: $(STAMP)  ## kill the engine at every point, spoil its disk, and check what must hold (about a quarter of an hour)
	@scripts/system-packages
	@$(PY) faults/run.py

bench: $(STAMP)  ## print the performance figures as ratios measured in one run
	@$(PY) bench/run.py

lock: $(STAMP)  ## pin the newest allowed versions, with hashes and without addresses
	@scripts/lock

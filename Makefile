# Two commands are enough: `make run` and `make test`. Both install what they need.
PYTHON ?= python3.11
# Another Python has an environment of its own: `make check PYTHON=python3.13`.
VENV := $(if $(filter python3.11,$(notdir $(PYTHON))),.venv,build/$(notdir $(PYTHON)))
BIN := $(VENV)/bin
LOCK := packaging/requirements-dev.lock
export QT_API := pyside6
# Each process that compiles the sources anew costs a sixth of a second, and the tests start a thousand.
unexport PYTHONDONTWRITEBYTECODE

PYTEST = $(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder --max-worker-restart=0

.PHONY: run test test-slow test-all test-apps test-wine check format lint types boundary bench tour setup clean lock

run: $(VENV)/ready
	@if [ -n "$$DISPLAY$$WAYLAND_DISPLAY" ]; then exec $(BIN)/python -m app; else $(MAKE) --no-print-directory tour; fi

# `make test` is for every change: unit, the window, and a story of each kind of process. What is slow besides is in
# `make test-all`, which CI runs. `HYPOTHESIS_PROFILE=full make test` tries all generated examples and altered
# bytes, not some of each kind.
# Half of the tests' time is waiting for processes, so there are twice as many workers as cores: on two cores
# 416 s with four, 550 s with two. A file's tests stay together and in order. The plugin's own order begins
# with the files of the most tests, and so ends with the longest, which are of one test. When a process of
# tests crashes, the run ends and says in which test: with another in its place it would wait for ever.
test: $(VENV)/ready
	$(PYTEST) -m "not slow"

test-slow: $(VENV)/ready
	$(PYTEST) -m slow

# Real programs on a display of the tests' own; each file of tests has its worker's session to itself.
test-apps: $(VENV)/ready
	$(BIN)/python -m pytest tests/apps -n 2 --dist loadfile -rs

# The client, service and command line as a Python for Windows runs them under Wine, where both are there:
# tests/wine/windows_python.sh makes the latter. No part of `make check`: it takes a gigabyte and says nothing of
# Windows itself.
test-wine: $(VENV)/ready
	$(BIN)/python -m pytest tests/wine -rs

test-all: test test-slow test-apps

check: format lint types boundary test-all

format: $(VENV)/ready
	$(BIN)/ruff format --check .

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/python packaging/check_words.py core app

# The core once for each system, which has other names in the standard library. Each has a cache of its own: one
# for all would be made again at each change of the system.
types: $(VENV)/ready
	$(BIN)/mypy app core tests/fakes tests/tour tests/gallery
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32 core
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin core

boundary: $(VENV)/ready
	$(BIN)/lint-imports

bench: $(VENV)/ready
	$(BIN)/python -m tests.bench

tour: $(VENV)/ready
	$(BIN)/python -m tests.tour --out build/tour

setup: $(VENV)/ready

$(VENV)/ready: $(LOCK) packaging/debian-packages.txt packaging/install_debian.sh packaging/setup.sh
	sh packaging/setup.sh "$(PYTHON)" "$(VENV)" "$(LOCK)"
	@touch $@

# Locks carry hashes and no download addresses.
lock: $(VENV)/ready
	sh packaging/lock.sh "$(VENV)"

clean:
	rm -rf build .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

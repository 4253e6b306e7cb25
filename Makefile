# Every target makes .venv and installs what it needs first: each works as the first command
# on a fresh clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JOBS ?= 2

.PHONY: setup browser demo test test-slow lint format bench clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

# The report's tests need Chromium. Without one, and without the right to install it, they skip
# and say so.
browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null \
	  || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	       && echo "Installing chromium for the report's tests" \
	       && { apt-get install -qq -y --no-install-recommends chromium >/dev/null 2>&1 \
	            || { apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium; } \
	               >/dev/null 2>&1; }; } \
	  || echo "No chromium, and it could not be installed: the report's browser tests will skip"

demo: setup
	$(BIN)/dibpnmf demo --out demo

test: setup browser
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow"

test-slow: setup
	$(BIN)/python -m pytest -s -n 0 -m slow

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) demo build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# Two commands do everything, set-up included: `make demo` and `make test`.
#
#   make demo                 the plugin on an embedded phantom, tracked
#   make demo FOD=wmfod.nii.gz    the same on your own FOD volume
#   make test                 linter, types and tests, on a virtual screen
#   make test ARGS="-k grid"  some of the tests
#   make test-all             those that are slow by nature too, more damaged files, `make lowest`,
#                             `make newest`
#   make lowest               tests on the lowest version of every dependency, in .venv-lowest
#   make newest               the plugin's tests on the newest napari, pre-releases too, in .venv-newest
#   make python PYTHON=python3.13    tests under another Python, in .venv-3.13
#   make lint, make format    what `make test` checks first, spelling too; let ruff put it right
#   make coverage             which lines the last `make test` did not run; what Numba compiles is
#                             not counted
#   make docs, make docs-check    write, or check, the pages that are derived from the code
#   make site                 the pages of docs/ as a site in site/; links that lead nowhere are errors
#   make pictures             the film and the figures of docs/images
#   make gallery              the pictures of docs/gallery
#   make clean                remove what these commands made, but for the environments

PYTHON_BIN := .venv/bin/python
HEADLESS := scripts/headless.sh

.DEFAULT_GOAL := help
.PHONY: help demo test test-all coverage lowest newest python lint format docs docs-check site pictures gallery clean

help:
	@sed -n '2,/^$$/s/^# \{0,1\}//p' Makefile

demo:
	@scripts/setup.sh demo
	@if [ "$$(uname -s)" = Linux ] && [ -z "$${DISPLAY:-}$${WAYLAND_DISPLAY:-}" ]; then \
	    QT_API=pyqt6 $(HEADLESS) .venv/bin/napari-tractography demo $(if $(FOD),--fod "$(FOD)") --output demo-output; \
	else \
	    .venv/bin/napari-tractography demo $(if $(FOD),--fod "$(FOD)"); \
	fi

test: lint
	@scripts/tests.sh $(ARGS)

test-all: lint
	@scripts/tests.sh all
	@scripts/lowest.sh
	@scripts/newest.sh

coverage:
	@$(PYTHON_BIN) -m coverage report

lowest:
	@scripts/lowest.sh $(ARGS)

newest:
	@scripts/newest.sh $(ARGS)

python:
	@PYTHON="$(PYTHON)" scripts/python.sh $(ARGS)

lint:
	@scripts/setup.sh test
	@$(PYTHON_BIN) -m ruff check .
	@$(PYTHON_BIN) -m ruff format --check .
	@$(PYTHON_BIN) -m codespell_lib src docs tests scripts benchmarks $(wildcard *.md)
	@$(PYTHON_BIN) -m mypy

format:
	@scripts/setup.sh test
	@$(PYTHON_BIN) -m ruff check --fix .
	@$(PYTHON_BIN) -m ruff format .

docs:
	@scripts/setup.sh test
	@$(PYTHON_BIN) scripts/docs.py

docs-check:
	@scripts/setup.sh test
	@$(PYTHON_BIN) scripts/docs.py --check

site:
	@scripts/setup.sh test
	@NO_MKDOCS_2_WARNING=1 $(PYTHON_BIN) -m mkdocs build --strict

pictures:
	@scripts/setup.sh test
	@$(PYTHON_BIN) scripts/sampler_figure.py
	@QT_API=pyqt6 $(HEADLESS) $(PYTHON_BIN) scripts/film.py $(ARGS)

gallery:
	@scripts/setup.sh test
	@QT_API=pyqt6 $(HEADLESS) $(PYTHON_BIN) scripts/gallery.py $(ARGS)

clean:
	rm -rf build dist demo-output site .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find src tests benchmarks scripts -name __pycache__ -type d -prune -exec rm -rf {} +

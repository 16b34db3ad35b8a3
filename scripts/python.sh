#!/usr/bin/env bash
# Run the tests under another Python, with the newest packages that it takes:
# `PYTHON=python3.13 scripts/python.sh [pytest's arguments]`.
#
# The environment, .venv-3.13 or the like, is made by setup.sh; .venv stays as it is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ -z "${PYTHON:-}" ]; then
    echo "python: say under which Python: make python PYTHON=python3.13." >&2
    exit 2
fi
ENVIRONMENT=$(scripts/setup.sh python)
export ENVIRONMENT
export PYTEST_ADDOPTS="-o cache_dir=$ENVIRONMENT/pytest_cache ${PYTEST_ADDOPTS:-}"
"$ENVIRONMENT/bin/python" -VV
exec scripts/tests.sh "$@"

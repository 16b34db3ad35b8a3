#!/usr/bin/env bash
# Run the plugin's tests on the newest napari, pre-releases too: `scripts/newest.sh [pytest's
# arguments]`.
#
# The environment, .venv-newest, is made by setup.sh. Where there is no newer napari than that of
# .venv, with which the tests have run, there is nothing to do.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

napari_of() { "$1/bin/python" -c 'from importlib.metadata import version; print(version("napari"))'; }

scripts/setup.sh newest
newest=$(napari_of .venv-newest)
echo "newest: napari $newest"
if [ -x .venv/bin/python ] && [ "$newest" = "$(napari_of .venv)" ]; then
    exit
fi
if [ $# -eq 0 ]; then
    set -- tests/plugin
fi
export ENVIRONMENT=.venv-newest
export PYTEST_ADDOPTS="-o cache_dir=$ENVIRONMENT/pytest_cache ${PYTEST_ADDOPTS:-}"
exec scripts/tests.sh "$@"

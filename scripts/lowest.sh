#!/usr/bin/env bash
# Run tests on the lowest version of every dependency: `scripts/lowest.sh [pytest's arguments]`.
#
# Without arguments those that meet other packages: Numba's compiled code, files, Dask, Matplotlib,
# Zarr, and what the plugin takes from napari's inside. The environment, .venv-lowest, is made by
# setup.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/setup.sh lowest
if [ $# -eq 0 ]; then
    set -- \
        tests/test_*.py --deselect tests/test_repository.py --deselect tests/test_packaging.py \
        --deselect tests/test_gallery.py --deselect tests/test_docs.py \
        tests/runtime tests/geometry tests/model/test_*.py tests/files tests/streamlines \
        tests/fields/test_structure_tensors.py \
        tests/recipes/test_image_sources.py tests/recipes/test_project.py \
        tests/cli/test_measures.py tests/maps/test_bundle_measures.py tests/maps/test_profiles.py \
        tests/maps/test_scalar_maps.py tests/maps/test_visitation.py \
        tests/tracking/test_digests.py tests/tracking/cpu tests/tracking/tables \
        tests/tracking/cluster \
        tests/plugin/test_contributions.py \
        tests/plugin/layers \
        tests/plugin/streamlines/test_bare_tracks.py tests/plugin/streamlines/test_layer.py \
        tests/plugin/session/test_session.py \
        tests/plugin/export/test_screenshots.py \
        tests/plugin/panel/test_settings.py tests/plugin/panel/widgets \
        tests/plugin/panel/measure
fi

.venv-lowest/bin/python -m pip list --disable-pip-version-check --format freeze |
    grep -iE "^($(cut -d= -f1 .venv-lowest/minima.txt | paste -sd '|'))=="
# Numba's cached code is of one version: that of .venv stays as it is.
export NUMBA_CACHE_DIR=.venv-lowest/numba QT_API=pyqt6 PYTEST_QT_API=pyqt6
scripts/headless.sh .venv-lowest/bin/python -m pytest -p no:xvfb \
    -o cache_dir=.venv-lowest/pytest_cache "$@"

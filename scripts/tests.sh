#!/usr/bin/env bash
# Run the tests on virtual screens: `scripts/tests.sh [all | pytest's arguments]`.
#
# Without arguments there are two processes, since hardly any test takes more than one processor:
# each has a screen and settings of its own, and pytest-xdist gives tests of the one that has more
# to do to the other. They note which lines of the program are run, and fail where too few are (see
# pyproject.toml). What is slow by nature is left out, but for `all`, which damages more files, too.
# With arguments there is one process, and no such note. ENVIRONMENT names another environment than
# .venv, as scripts/python.sh does.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export QT_API=pyqt6 PYTEST_QT_API=pyqt6
# Else each process that a test starts compiles all modules again, and threads of matrix products
# wait for processors that the other process has.
export PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1
pytest=("${ENVIRONMENT:-.venv}/bin/python" -m pytest -p no:xvfb)

if [ "$*" = all ]; then
    export FUZZ_EXAMPLES=${FUZZ_EXAMPLES:-100}
    markers=""
elif [ $# -gt 0 ]; then
    exec scripts/headless.sh "${pytest[@]}" "$@"
else
    markers="not slow"
fi

# Print what headless.sh set, as the environment of one of xdist's processes.
screen() {
    local name specification=popen
    for name in DISPLAY XAUTHORITY NAPARI_CONFIG; do
        if [ -n "${!name:-}" ]; then
            specification+="//env:$name=${!name}"
        fi
    done
    echo "$specification"
}

# This script calls itself on a screen, and from there on another, so that both are open at once.
case ${OPEN_SCREENS:-0} in
0) OPEN_SCREENS=1 exec scripts/headless.sh scripts/tests.sh "$@" ;;
1) OPEN_SCREENS=2 FIRST_SCREEN=$(screen) exec scripts/headless.sh scripts/tests.sh "$@" ;;
*)
    exec "${pytest[@]}" --cov --cov-report= -m "$markers" \
        --dist worksteal --tx "$FIRST_SCREEN" --tx "$(screen)"
    ;;
esac

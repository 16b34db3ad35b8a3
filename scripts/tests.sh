#!/usr/bin/env bash
# Run the tests on a virtual screen: `scripts/tests.sh [pytest's arguments]`.
#
# Without arguments those of the plugin run beside all others, since neither takes more than one
# processor; the report of the others comes at the end.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export QT_API=pyqt6 PYTEST_QT_API=pyqt6
run() { scripts/headless.sh .venv/bin/python -m pytest -p no:xvfb "$@"; }

if [ $# -gt 0 ]; then
    run "$@"
    exit
fi

report=$(mktemp)
trap 'rm -f "$report"' EXIT
run --ignore tests/plugin >"$report" 2>&1 &
others=$!
sleep 3 # so that each takes a virtual screen of its own
run tests/plugin
plugin_status=$?
wait "$others"
others_status=$?
cat "$report"
exit $((plugin_status != 0 ? plugin_status : others_status))

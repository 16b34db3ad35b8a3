#!/usr/bin/env bash
# Run a command as on a machine of its own: on a virtual screen, with software OpenGL and
# without the settings of the person at the keyboard. Where there is no Xvfb (macOS, Windows)
# it runs on the real screen.
#
#   scripts/headless.sh COMMAND [ARGUMENT...]
set -euo pipefail

settings=$(mktemp -d)
trap 'rm -rf "$settings"' EXIT
export NAPARI_CONFIG="$settings/settings.yaml"

if [ "$(uname -s)" != Linux ]; then
    "$@"
    exit
fi
unset WAYLAND_DISPLAY
export QT_QPA_PLATFORM=xcb LIBGL_ALWAYS_SOFTWARE=1
if [ -z "${XDG_RUNTIME_DIR:-}" ]; then # Qt complains without
    export XDG_RUNTIME_DIR="$settings"
fi
xvfb-run -a -s "-screen 0 1440x900x24" "$@"

#!/usr/bin/env bash
# Prepare this checkout: system libraries, and a virtual environment in .venv.
#
#   scripts/setup.sh demo      what it takes to run the plugin
#   scripts/setup.sh test      the same, and the linter, the type checker and the tests
#   scripts/setup.sh lowest    in .venv-lowest: the tests, and the lowest versions of every
#                              dependency that pyproject.toml allows
#   scripts/setup.sh newest    in .venv-newest: the tests, and the newest napari that pyproject.toml
#                              allows, pre-releases too; looked for once a day
#   scripts/setup.sh python    in .venv-3.13 or the like, whatever PYTHON is: the tests, and the
#                              newest versions; prints the name of that folder
#
# It may be run any number of times: it takes a fraction of a second when nothing is missing.
# PYTHON=path chooses the interpreter that the environment is made with, and
# SKIP_SYSTEM_CHECK=1 leaves the system libraries to you.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

purpose=${1:-demo}
environment=.venv
case $purpose in
demo) packages=(".[all]") ;;
test) packages=(".[all,test]") ;;
lowest)
    # Without CuPy, whose newest release takes no NumPy that is as old as this.
    packages=(".[dask,images,measures,movies,plots,warps,zarr]" "napari[pyqt6]" "fsspec[http]" hatchling hypothesis psutil pytest pytest-qt)
    environment=.venv-lowest
    ;;
newest)
    # Which has pip take pre-releases of napari alone: it asks for each set of extras by itself.
    packages=(".[all,test]" "napari>=0.dev0" "napari[all]>=0.dev0" "napari[pyqt6]>=0.dev0")
    environment=.venv-newest
    ;;
python) packages=(".[all,test]") ;; # the environment is named below, by the version
*)
    echo "setup: the purpose '$purpose' is unknown; say demo, test, lowest, newest or python." >&2
    exit 2
    ;;
esac

say() { echo "setup: $*" >&2; }
fail() {
    say "$*"
    exit 1
}

# ---------------------------------------------------------------- system libraries (Debian's names)

# Prints "command arguments" that runs apt-get with the needed rights, or fails.
apt_command() {
    command -v apt-get >/dev/null || return 1
    if [ "$(id -u)" = 0 ]; then
        echo "env DEBIAN_FRONTEND=noninteractive apt-get"
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        echo "sudo -n env DEBIAN_FRONTEND=noninteractive apt-get"
    else
        return 1
    fi
}

# install_packages WHY PACKAGE...: by apt where we may, else one line that names what is missing.
install_packages() {
    local why=$1 apt log
    shift
    apt=$(apt_command) || fail "missing on this machine, $why: $*. Those are Debian's names;" \
        "install them (apt-get install ..., as root) and run this again."
    say "installing with apt: $*"
    log=$(mktemp)
    # A source that cannot be reached need not be the one that has the packages.
    $apt update -qq >"$log" 2>&1 || true
    if ! $apt install -y -qq --no-install-recommends "$@" >>"$log" 2>&1; then
        tail -n 20 "$log" >&2
        rm -f "$log"
        fail "apt-get could not install what is missing, $why: $*. Install them and run this again."
    fi
    rm -f "$log"
}

# Each line: Debian's package, then the library or the command that tells that it is there.
# Qt's xcb plug-in loads the first group, napari's canvas the second.
needed_libraries="
libglib2.0-0 libgthread-2.0.so.0
libdbus-1-3 libdbus-1.so.3
libfontconfig1 libfontconfig.so.1
libx11-xcb1 libX11-xcb.so.1
libxkbcommon-x11-0 libxkbcommon-x11.so.0
libxcb-cursor0 libxcb-cursor.so.0
libxcb-icccm4 libxcb-icccm.so.4
libxcb-image0 libxcb-image.so.0
libxcb-keysyms1 libxcb-keysyms.so.1
libxcb-randr0 libxcb-randr.so.0
libxcb-render-util0 libxcb-render-util.so.0
libxcb-shape0 libxcb-shape.so.0
libxcb-xinerama0 libxcb-xinerama.so.0
libxcb-xfixes0 libxcb-xfixes.so.0
libgl1 libGL.so.1
libegl1 libEGL.so.1
libgl1-mesa-dri dri"
needed_commands="
xvfb xvfb-run
xauth xauth"

has_library() {
    if [ "$1" = dri ]; then # drivers are found by path, not by the linker
        compgen -G '/usr/lib*/dri/*_dri.so' >/dev/null ||
            compgen -G '/usr/lib/*/dri/*_dri.so' >/dev/null
    else
        case $libraries in *"$1 "*) ;; *) return 1 ;; esac
    fi
}

check_system() {
    [ "$(uname -s)" = Linux ] && [ -z "${SKIP_SYSTEM_CHECK:-}" ] || return 0
    local package probe libraries missing=()
    libraries=$(PATH=$PATH:/usr/sbin:/sbin ldconfig -p) || libraries=
    while read -r package probe; do
        [ -z "$package" ] || has_library "$probe" || missing+=("$package")
    done <<<"$needed_libraries"
    if [ "$purpose" != demo ] || [ -z "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ]; then
        while read -r package probe; do
            [ -z "$package" ] || command -v "$probe" >/dev/null || missing+=("$package")
        done <<<"$needed_commands"
    fi
    if [ "$purpose" != demo ] && ! command -v g++ >/dev/null; then
        missing+=(g++) # compiles the CUDA source for the host, to compare it with the CPU's
    fi
    if [ ${#missing[@]} -gt 0 ]; then
        install_packages "for Qt, OpenGL and a screen" "${missing[@]}"
    fi
}

# ------------------------------------------------------------------------- Python and its packages

is_recent() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    local candidate
    if [ -n "${PYTHON:-}" ]; then
        is_recent "$PYTHON" || fail "PYTHON=$PYTHON is no Python 3.11 or newer."
        echo "$PYTHON"
        return
    fi
    for candidate in python3 python3.14 python3.13 python3.12 python3.11 python; do
        if command -v "$candidate" >/dev/null && is_recent "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    fail "no Python 3.11 or newer on the PATH$(found=$(python3 -V 2>/dev/null) &&
        echo " (only $found)"); install one, or name it: PYTHON=/path/to/python3 make demo."
}

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])'; }

make_environment() {
    local python version
    if [ -x "$environment/bin/python" ] && is_recent "$environment/bin/python" &&
        "$environment/bin/python" -m pip --version >/dev/null 2>&1; then
        return
    fi
    python=$(find_python)
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then # Debian keeps it in a package
        version=$(version_of "$python")
        install_packages "for $python -m venv" "python$version-venv"
    fi
    say "making $environment with $("$python" -V) ($python)"
    "$python" -m venv --clear "$environment" || fail "$python -m venv $environment failed."
}

install_python_packages() {
    local key made stamp=$environment/.setup-$purpose options=()
    # What the environment depends on: these files, and where it lies (scripts hold its path).
    key="$(cksum pyproject.toml scripts/setup.sh scripts/minima.py) $PWD"
    if [ "$purpose" = newest ]; then
        key+=" $(date +%F)"
        options+=(--upgrade)
    fi
    # The tests' environment has all that a demo needs.
    for made in "$stamp" "$environment/.setup-test"; do
        if [ -x "$environment/bin/python" ] && [ "$(cat "$made" 2>/dev/null)" = "$key" ]; then
            return
        fi
    done
    make_environment
    if [ "$purpose" = lowest ]; then
        "$environment/bin/python" scripts/minima.py >"$environment/minima.txt" || exit 1
        options=(--constraint "$environment/minima.txt")
    fi
    say "installing the Python packages (${packages[*]}); the first time takes a few minutes"
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
        ${options[@]+"${options[@]}"} --editable "${packages[@]}" ||
        fail "pip could not install ${packages[*]}; its message is above."
    echo "$key" >"$stamp"
}

if [ "$purpose" = python ]; then
    python=$(find_python)
    environment=.venv-$(version_of "$python")
fi
check_system
# Two makes at once would install into one environment: the second waits for the first.
if command -v flock >/dev/null; then
    exec 9<scripts/setup.sh
    flock 9
fi
install_python_packages
if [ "$purpose" = python ]; then
    echo "$environment"
fi

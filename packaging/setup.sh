#!/bin/sh
# Installs Debian packages that are missing, the locked Python packages, and this project's two programs, which
# run from the source as it is: setup.sh PYTHON VENV LOCK
set -eu
python=$1 venv=$2 lock=$3
here=$(dirname "$0")

if command -v dpkg-query >/dev/null 2>&1; then
    missing=""
    for name in $(grep -v '^#' "$here/debian-packages.txt"); do
        dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || missing="$missing $name"
    done
    if [ -n "$missing" ]; then
        as_root=""
        [ "$(id -u)" -eq 0 ] || as_root="sudo"
        if [ -n "$as_root" ] && ! command -v sudo >/dev/null 2>&1; then
            echo "These Debian packages are missing and there is no sudo to install them:$missing" >&2
            exit 1
        fi
        echo "Installing Debian packages:$missing"
        $as_root apt-get update -qq
        # shellcheck disable=SC2086  # a list of words is meant
        DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
    fi
fi

command -v "$python" >/dev/null 2>&1 || python=python3
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "Python 3.11 or newer is needed; $python is $("$python" --version 2>&1)." >&2
    exit 1
}
# One that was interrupted, or made where venv lacks a part, has a Python without pip: that is made anew.
"$venv/bin/python" -m pip --version >/dev/null 2>&1 || "$python" -m venv --clear "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$lock"
# Its build needs nothing but what the lock has just installed, and no network.
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation \
    --editable "$here/.."

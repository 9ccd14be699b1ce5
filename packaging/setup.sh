#!/bin/sh
# Installs Debian packages that are missing, the locked Python packages, and this project's two programs, which
# run from the source as it is: setup.sh PYTHON VENV LOCK
set -eu
python=$1 venv=$2 lock=$3
here=$(dirname "$0")

sh "$here/install_debian.sh" "$here/debian-packages.txt"

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

#!/bin/sh
# Makes the three locks anew from pyproject.toml: lock.sh VENV. The device's has no Qt.
set -eu
bin=$1/bin
"$bin/python" -m pip install --quiet pip-tools
compile() {
    lock=$1
    shift
    "$bin/python" -m piptools compile --quiet --generate-hashes --no-header --strip-extras --allow-unsafe \
        --resolver=backtracking --output-file "$lock" "$@" pyproject.toml
    # What is left besides packages and hashes says where this machine downloads from: not ours to keep.
    sed -i -e '/^--/d' -e '/./,$!d' "$lock"
}
compile packaging/requirements-device.lock
compile packaging/requirements.lock --extra window --extra expressions
compile packaging/requirements-dev.lock --extra window --extra expressions --extra dev

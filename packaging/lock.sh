#!/bin/sh
# Makes the three locks anew from pyproject.toml: lock.sh VENV. The device's has no Qt.
set -eu
bin=$1/bin
"$bin/python" -m pip install --quiet pip-tools
compile() {
    "$bin/python" -m piptools compile --quiet --generate-hashes --no-emit-index-url --no-emit-trusted-host \
        --no-emit-find-links --no-header --strip-extras --allow-unsafe --resolver=backtracking "$@" pyproject.toml
}
compile --output-file packaging/requirements-device.lock
compile --extra window --output-file packaging/requirements.lock
compile --extra window --extra dev --output-file packaging/requirements-dev.lock

#!/bin/sh
# Installs the Debian packages of a list that are missing: install_debian.sh LIST
set -eu
list=$1

command -v dpkg-query >/dev/null 2>&1 || exit 0
missing=""
for name in $(grep -v '^#' "$list"); do
    dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || missing="$missing $name"
done
[ -n "$missing" ] || exit 0
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

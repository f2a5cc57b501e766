#!/usr/bin/env bash
# Installs the Python package into build/venv and runs its tests there.
#   tests/python/run.sh [pytest option...]
# TILESIM_WITH_TILELANG=1 (and CI=true) also installs TileLang and runs the tests that need it;
# otherwise those are skipped, aloud. Exit status 77: skipped, no package index can be reached.
set -euo pipefail
cd "$(dirname "$0")/../.."

venv=build/venv
python=$venv/bin/python
requirements=("scikit-build-core>=0.11" numpy pytest)
if [[ ${CI:-} == true || ${TILESIM_WITH_TILELANG:-} == 1 ]]; then
  export TILESIM_WITH_TILELANG=1
  requirements+=(torch==2.13.0 tilelang==0.1.15)
else
  unset TILESIM_WITH_TILELANG
fi

# skip_or_fail MESSAGE: CI must not pass without the tests.
skip_or_fail() {
  echo "$1" >&2
  [[ ${CI:-} == true ]] && exit 1
  exit 77
}

mkdir -p build
if ! "$python" -c 'import pip' 2> /dev/null; then
  python3 -m venv --clear --system-site-packages "$venv" ||
    skip_or_fail "Skipped: no virtual environment; apt-get install python3-venv"
fi
"$python" -m pip install -q --disable-pip-version-check "${requirements[@]}" 2> build/venv/pip.log ||
  { cat build/venv/pip.log >&2; skip_or_fail "Skipped: could not install ${requirements[*]}"; }
"$python" -m pip install -q --disable-pip-version-check --no-build-isolation --no-deps \
  --force-reinstall -C "build-dir=$PWD/build/python" ./python
unset TILESIM_LIBRARY # the tests are of the library that was just installed
exec "$python" -m pytest tests/python "$@"

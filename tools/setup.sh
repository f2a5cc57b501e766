# Sourced by ./test and ./demo: installs what is missing, configures and builds.
# The caller has `set -euo pipefail` and stands in the source folder.

# What is needed, as a command or pkg-config file, and the Debian package that has it.
TS_BUILD_NEEDS="cmake:cmake ninja:ninja-build pkg-config:pkg-config cc:gcc
  liblzma.pc:liblzma-dev libcjson.pc:libcjson-dev libmd.pc:libmd-dev"
TS_TEST_NEEDS="check.pc:check python3:python3"

ts_has() {
  case $1 in
    *.pc) pkg-config --exists "${1%.pc}" 2> /dev/null ;;
    *) command -v "$1" > /dev/null ;;
  esac
}

# ts_require "what:package ...": installs the packages whose commands or modules are missing.
ts_require() {
  local need missing=() sudo=()
  for need in $1; do
    ts_has "${need%%:*}" || missing+=("${need#*:}")
  done
  # libc's headers come with a package of their own that gcc only recommends.
  if ! echo '#include <stdio.h>' | cc -fsyntax-only -x c - 2> /dev/null; then
    missing+=(libc6-dev)
  fi
  ((${#missing[@]})) || return 0
  if ! command -v apt-get > /dev/null; then
    echo "Missing: ${missing[*]} (names of Debian packages); please install them." >&2
    return 1
  fi
  if (($(id -u) != 0)); then
    if ! command -v sudo > /dev/null; then
      echo "Missing packages; as root: apt-get install ${missing[*]}" >&2
      return 1
    fi
    sudo=(sudo)
  fi
  echo "installing: ${missing[*]}" >&2
  if ! { "${sudo[@]}" apt-get update -q && ts_apt_install "${missing[@]}"; } >&2; then
    echo "Could not install ${missing[*]}; as root: apt-get install ${missing[*]}" >&2
    return 1
  fi
}

ts_apt_install() {
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "$@"
}

# ts_quietly command...: its output is shown only when it fails.
ts_quietly() {
  local log status=0
  log=$(mktemp)
  "$@" > "$log" 2>&1 || status=$?
  ((status == 0)) || cat "$log" >&2
  rm -f "$log"
  return "$status"
}

# ts_build FOLDER TARGET [cmake option...]: configures and builds.
ts_build() {
  local folder=$1 target=$2 generator=()
  shift 2
  [[ -f $folder/CMakeCache.txt || $* == *--preset* ]] || generator=(-G Ninja)
  echo "building in $folder/ ..." >&2
  if ! ts_quietly cmake -S . -B "$folder" "${generator[@]}" "$@" ||
    ! ts_quietly cmake --build "$folder" --target "$target"; then
    echo "The build failed. To start afresh: rm -r $folder" >&2
    return 1
  fi
}

#!/usr/bin/env bash
# The shared library exports exactly the functions that include/tilesim declares.
# usage: check_exports.sh CC libtilesim.so
set -euo pipefail
cd "$(dirname "$0")/.."
cc=$1
library=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat include/tilesim/*.h | "$cc" -std=c11 -fpreprocessed -dD -E -P -x c - 2> /dev/null |
  grep -v '^ *#' | tr '\n' ' ' | grep -oE '\bts_[a-z0-9_]+ *\(' | tr -d ' (' |
  LC_ALL=C sort -u > "$work/declared"
nm -D --defined-only "$library" | awk '$2 == "T" { print $3 }' | LC_ALL=C sort > "$work/exported"

missing=$(LC_ALL=C comm -23 "$work/declared" "$work/exported")
extra=$(LC_ALL=C comm -13 "$work/declared" "$work/exported")
[[ -z $missing ]] || printf 'declared but not exported:\n%s\n' "$missing"
[[ -z $extra ]] || printf 'exported but not declared:\n%s\n' "$extra"
echo "$(wc -l < "$work/exported") functions exported"
[[ -z $missing && -z $extra ]]

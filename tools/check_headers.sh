#!/usr/bin/env bash
# Compiles every header alone, public ones also as C++. usage: check_headers.sh CC [CXX]
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
cc=${1:-cc}
cxx=${2:-c++}
flags=(-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -Wno-unused-function -fsyntax-only
  -D_XOPEN_SOURCE=700)
status=0
count=0

while IFS= read -r header; do
  count=$((count + 1))
  if ! echo "#include \"${header#*/}\"" | "$cc" -std=c11 "${flags[@]}" -Isrc -Iinclude -x c -; then
    echo "$header: does not compile alone"
    status=1
  fi
done < <(find src include -name '*.h' -type f | LC_ALL=C sort)

if command -v "$cxx" > /dev/null; then
  while IFS= read -r header; do
    if ! echo "#include \"${header#*/}\"" | "$cxx" -std=c++11 "${flags[@]}" -Iinclude -x c++ -; then
      echo "$header: does not compile as C++"
      status=1
    fi
  done < <(find include -name '*.h' -type f | LC_ALL=C sort)
else
  echo "SKIPPED: no C++ compiler; public headers were not tried as C++"
fi
echo "$count headers"
exit "$status"

#!/bin/sh
# Runs what build.sh built, on the GPU's machine: sh run.sh OUT_DIR [program...]. Takes half a minute.
cd "$(dirname "$0")"
out=$1
shift
for f in ${*:-tma sharing l2 latency launch pipes branch shared banks sync mma atomics cold clock}; do
  timeout 60 "./$f" >"$out/$f.csv" 2>&1
  echo "$f exit $? rows $(wc -l <"$out/$f.csv")"
done

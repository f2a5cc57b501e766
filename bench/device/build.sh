#!/bin/sh
# Builds the device programs: sh build.sh OUT_DIR. Needs nvcc 13.0 or newer; no GPU.
set -e
here=$(dirname "$0")
mkdir -p "$1"
for f in tma sharing l2 latency launch pipes branch shared banks sync mma atomics cold clock; do
  nvcc -O3 -std=c++17 -gencode=arch=compute_90a,code=sm_90a -cudart static -o "$1/$f" "$here/$f.cu"
done
cp "$here/load.py" "$here/run.sh" "$1"

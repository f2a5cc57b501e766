/* Every scalar operation of `tilesim num` that PTX has, on the GPU against the library. Made of
 *   scalar_ptx.py tilesim scalar.ptx scalar.txt && ptxas -arch=sm_90a scalar.ptx -o scalar.cubin
 *   nvcc -arch=sm_90a -cudart static -Isrc tests/num/device/scalar_check.cu libts_num.a libts_base.a
 * and run as: scalar_check scalar.cubin scalar.txt > results. One line per operation: operands
 * compared, how many results differ, the first few. */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>
extern "C" {
#include "num/num.h"
}

enum { COUNT = 1 << 18, THREADS = 256, INPUTS = 4 };

#define CHECK(call)                                                                                \
  do {                                                                                             \
    cudaError_t error_ = (call);                                                                   \
    if (error_ != cudaSuccess) {                                                                   \
      printf("%s: %s\n", #call, cudaGetErrorString(error_));                                       \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

static uint64_t state = 0x9e3779b97f4a7c15u;

static uint64_t random_bits() {
  state += 0x9e3779b97f4a7c15u;
  uint64_t z = state;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

/* Operands in six kinds: any bits; exponents near each other (for 32 and for 16 bits); small
 * integers; ends and their neighbours; subnormals. */
static uint64_t operand(size_t i) {
  static const uint64_t ends[] = {0, 0x7f800000, 0x7fc00000, 0x3f800000, 0x00800000, 0x7fffffff,
                                  0x80000000, 0x7c007c00, 0x3c003c00, 0x04000400, 0x7f807f80,
                                  0x7ff0000000000000, 0x3ff0000000000000, 0x8000000000000000};
  uint64_t r = random_bits(), s = random_bits();
  switch (i % 6) {
  case 1: return (r & 0x807fffff807fffff) | (uint64_t)(0x3f800000 + (s % 16 << 23)) | (0x3ff0ull + s % 8) << 48;
  case 2: return (r & 0x87ff87ff87ff87ff) | 0x3800380038003800;
  case 3: return s % 3 ? r % 64 : 0 - r % 64;
  case 4: return ends[r % (sizeof ends / sizeof *ends)] + s % 5 - 2;
  case 5: return r & 0x800fffff83ff83ff & (s % 2 ? ~0ull : 0x800fffff807fffff);
  default: return r;
  }
}

static uint64_t low_bits(unsigned bits) { return ~0ull >> (64 - bits); }

struct task {
  std::string kernel, name, line;
  std::vector<uint64_t> found;
};

/* All results of one operation by the library. */
static std::vector<uint64_t> expected(const ts_scalar_op *op, std::vector<uint64_t> *inputs) {
  std::vector<std::vector<uint64_t>> slots(INPUTS);
  const void *operands[INPUTS];
  enum ts_dtype dtypes[INPUTS], result = ts_scalar_dtype(op->result, strlen(op->result));
  const char *at = op->operands;
  for (unsigned i = 0; i < ts_scalar_arity(op); ++i) {
    at = strchr(at, ':') + 1;
    dtypes[i] = ts_scalar_dtype(at, strcspn(at, " "));
    unsigned bits = ts_dtype_bits(dtypes[i]);
    bool wide = ts_dtype_slot_bytes(dtypes[i]) == 8;
    slots[i].resize(COUNT);
    for (size_t j = 0; j < COUNT; ++j) {
      uint64_t encoding = i == 3 && strncmp(op->name, "lop3", 4) == 0 ? 0xca : inputs[i][j] & low_bits(bits);
      uint64_t slot = ts_dtype_slot(dtypes[i], encoding);
      if (wide)
        slots[i][j] = slot;
      else
        ((uint32_t *)slots[i].data())[j] = (uint32_t)slot;
    }
    operands[i] = slots[i].data();
  }
  std::vector<uint64_t> raw(COUNT), encodings(COUNT);
  ts_scalar_run(op, raw.data(), result, operands, dtypes, COUNT);
  for (size_t j = 0; j < COUNT; ++j) {
    uint64_t slot = ts_dtype_slot_bytes(result) == 8 ? raw[j] : ((uint32_t *)raw.data())[j];
    encodings[j] = ts_dtype_encoding(result, slot);
  }
  return encodings;
}

static void compare(task *t, std::vector<uint64_t> *inputs) {
  const ts_scalar_op *op = ts_scalar_find(t->name.c_str());
  unsigned bits = ts_dtype_bits(ts_scalar_dtype(op->result, strlen(op->result)));
  std::vector<uint64_t> want = expected(op, inputs);
  unsigned arity = ts_scalar_arity(op), differ = 0;
  char text[512];
  std::string examples;
  for (size_t j = 0; j < COUNT; ++j) {
    uint64_t got = t->found[j] & low_bits(bits);
    if (got == want[j]) continue;
    if (differ++ >= 4) continue;
    int length = snprintf(text, sizeof text, "  ");
    for (unsigned i = 0; i < arity; ++i)
      length += snprintf(text + length, sizeof text - length, " %llx", (unsigned long long)inputs[i][j]);
    snprintf(text + length, sizeof text - length, " -> gpu %llx here %llx\n", (unsigned long long)got,
             (unsigned long long)want[j]);
    examples += text;
  }
  snprintf(text, sizeof text, "%-32s %d compared, %u differ\n", t->name.c_str(), COUNT, differ);
  t->line = text + examples;
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  cudaLibrary_t library;
  CHECK(cudaLibraryLoadFromFile(&library, argv[1], nullptr, nullptr, 0, nullptr, nullptr, 0));
  std::vector<uint64_t> inputs[INPUTS];
  uint64_t *device[INPUTS + 1];
  for (int i = 0; i < INPUTS + 1; ++i)
    CHECK(cudaMalloc(&device[i], COUNT * 8));
  for (int i = 0; i < INPUTS; ++i) {
    for (size_t j = 0; j < COUNT; ++j)
      inputs[i].push_back(operand(random_bits() % 4 ? j : random_bits()));
    CHECK(cudaMemcpy(device[i + 1], inputs[i].data(), COUNT * 8, cudaMemcpyHostToDevice));
  }
  std::vector<task> tasks;
  FILE *names = fopen(argv[2], "r");
  char kernel[32], name[96];
  while (names && fscanf(names, "%31s %95s", kernel, name) == 2)
    tasks.push_back({kernel, name, "", {}});
  for (size_t first = 0; first < tasks.size(); first += 16) {
    std::vector<std::thread> threads;
    for (size_t i = first; i < first + 16 && i < tasks.size(); ++i) {
      cudaKernel_t function;
      CHECK(cudaLibraryGetKernel(&function, library, tasks[i].kernel.c_str()));
      void *arguments[] = {&device[0], &device[1], &device[2], &device[3], &device[4]};
      CHECK(cudaLaunchKernel((const void *)function, COUNT / THREADS, THREADS, arguments, 0, 0));
      tasks[i].found.resize(COUNT);
      CHECK(cudaMemcpy(tasks[i].found.data(), device[0], COUNT * 8, cudaMemcpyDeviceToHost));
      threads.emplace_back(compare, &tasks[i], inputs);
    }
    for (std::thread &thread : threads)
      thread.join();
    for (size_t i = first; i < first + 16 && i < tasks.size(); ++i) {
      fputs(tasks[i].line.c_str(), stdout);
      tasks[i].found = {};
    }
  }
  return 0;
}

/* Elementwise kernels for hosts with AVX512; empty when the compiler was not told to use it. */
#ifdef __AVX512BW__
#define ELEMENTWISE_TABLE ts__elementwise_avx512
#include "num/elementwise_kernels.h"
#else
#include "num/num_priv.h"
const struct ts__elementwise ts__elementwise_avx512 = {0};
#endif

/* Elementwise kernels for hosts with AVX2; empty when the compiler was not told to use it. */
#ifdef __AVX2__
#define ELEMENTWISE_TABLE ts__elementwise_avx2
#include "num/elementwise_kernels.h"
#else
#include "num/num_priv.h"
const struct ts__elementwise ts__elementwise_avx2 = {0};
#endif

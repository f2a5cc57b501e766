/* Elementwise kernels for any host. */
#define ELEMENTWISE_TABLE ts__elementwise_portable
#include "num/elementwise_kernels.h"

#ifndef MUSTER_WORKER_COLLECTIVES_REDUCE_REDUCE_TABLE_H_
#define MUSTER_WORKER_COLLECTIVES_REDUCE_REDUCE_TABLE_H_

#include <cstddef>

namespace muster {

// Reduces elements begin..begin+count-1 of each of `inputs` into out[0..count-1]. `out` overlaps no
// input, or lies exactly where one input's element `begin` lies.
using ReduceFunction = void (*)(const void* const* inputs, size_t input_count, size_t begin,
                                size_t count, int divisor, void* out);

// The reduction loops compiled for one instruction set.
struct ReduceTable {
  const char* name;
  // Indexed by DType, then by Reduction. Null where a type lacks it.
  ReduceFunction functions[7][8];
};

// Return null if the compiler does not target the instruction set. Callers check the machine.
const ReduceTable* BaselineReduceTable();
const ReduceTable* Avx2ReduceTable();
const ReduceTable* Avx512ReduceTable();

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_REDUCE_REDUCE_TABLE_H_

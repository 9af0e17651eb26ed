#ifndef MUSTER_WORKER_COLLECTIVES_REDUCE_REDUCE_TABLE_H_
#define MUSTER_WORKER_COLLECTIVES_REDUCE_REDUCE_TABLE_H_

#include <cstddef>

namespace muster {

// Reduces elements begin..begin+count-1 of each of `inputs` into out[0..count-1]. `out` is apart
// from the inputs or is exactly where one input's element `begin` lies.
using ReduceFunction = void (*)(const void* const* inputs, size_t input_count, size_t begin,
                                size_t count, int divisor, void* out);

// The reduction loops compiled for one instruction set.
struct ReduceTable {
  const char* name;
  // By DType, by Reduction.
  ReduceFunction functions[7][5];
};

// Null where the compiler does not target the instruction set. Whether the machine has it is the
// caller's to find out.
const ReduceTable* BaselineReduceTable();
const ReduceTable* Avx2ReduceTable();
const ReduceTable* Avx512ReduceTable();

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_REDUCE_REDUCE_TABLE_H_

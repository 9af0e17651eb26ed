#ifndef MUSTER_COMMON_PLAN_MEMORY_MATRIX_MEMORY_H_
#define MUSTER_COMMON_PLAN_MEMORY_MATRIX_MEMORY_H_

#include <cstdint>

namespace muster {

struct ModelSize;

// The memory that Muon's matrices of a model take, in elements; 0 under another optimizer.
struct MatrixMemory {
  // Scratch for one matrix, of which one thread does one at a time; the largest one counts.
  uint64_t scratch = 0;
  // The largest matrix.
  uint64_t largest = 0;
  // The most elements in matrices that a unit has.
  uint64_t of_unit = 0;
};
MatrixMemory PlanMatrices(const ModelSize& model);

}  // namespace muster

#endif  // MUSTER_COMMON_PLAN_MEMORY_MATRIX_MEMORY_H_

#ifndef MUSTER_WORKER_NN_SPARSE_ROWS_H_
#define MUSTER_WORKER_NN_SPARSE_ROWS_H_

#include <cstdint>
#include <vector>

namespace muster {

// Rows of one sparse table for one micro-batch.
struct SparseRows {
  // Distinct, in order of first use.
  std::vector<uint64_t> keys;
  // Which of `keys` each use in the batch refers to; the order of uses is the model's.
  std::vector<int32_t> inverse;
  // f32 [keys, dim]: filled by whoever holds the rows, before the first forward.
  std::vector<float> rows;
  // f32 [keys, dim]: written by the backward pass, sums over the batch.
  std::vector<float> gradients;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_SPARSE_ROWS_H_

#ifndef MUSTER_COMMON_PARTITION_INITIAL_VALUES_H_
#define MUSTER_COMMON_PARTITION_INITIAL_VALUES_H_

#include <cstdint>

#include "absl/types/span.h"
#include "common/partition/tensor_spec.h"

namespace muster {

// Initial values are a pure function of (seed, name, global index): any process makes the same, in
// any order and in any intervals. Element i takes lane i % 4 of Philox counter i / 4, keyed by
// (seed, "init", name): uniform values from 24 bits of the lane, normal ones by Box-Muller from the
// lane's pair. Thread-safe.

// Writes the initial values of elements [begin, begin + values.size()) of a dense tensor
// (row-major), or of a rank's share of one. Of a tied tensor, pass the owner.
void InitialValues(const TensorSpec& tensor, uint64_t seed, uint64_t begin,
                   absl::Span<float> values);

// Writes the initial values of one row of a sparse table; `row` has table.dim elements.
void InitialRow(const SparseTableSpec& table, uint64_t seed, uint64_t key, absl::Span<float> row);

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_INITIAL_VALUES_H_

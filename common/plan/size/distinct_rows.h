#ifndef MUSTER_COMMON_PLAN_SIZE_DISTINCT_ROWS_H_
#define MUSTER_COMMON_PLAN_SIZE_DISTINCT_ROWS_H_

#include <cstdint>

#include "common/plan/size/data_size.h"
#include "common/plan/size/model_size.h"

namespace muster {

// Expected distinct keys among the look-ups of `examples` examples: exact in the mean for synthetic
// clicks, whose distribution is known; of text by how the beginning of it repeats itself, or else
// as texts do; otherwise at most, every look-up a key of its own as far as there are keys. No more
// than kMostRows.
inline constexpr uint64_t kMostRows = uint64_t{1} << 44;
uint64_t DistinctRows(const ModelSize& model, const DataSize& data, uint64_t examples);

}  // namespace muster

#endif  // MUSTER_COMMON_PLAN_SIZE_DISTINCT_ROWS_H_

#ifndef MUSTER_COMMON_PARTITION_SHARED_SUMS_H_
#define MUSTER_COMMON_PARTITION_SHARED_SUMS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/partition/tensor_spec.h"

namespace muster {

// A call of tensor ranks that sums the gradients of elements of one unit of which each of these
// ranks has a part (PartialElements).
struct SharedSum {
  // Elements [begin, end) of a tensor.
  struct Elements {
    size_t tensor = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
  };

  // The number of neighbours that make the call.
  int ranks = 1;
  std::vector<Elements> elements;
  // The number of all these elements.
  uint64_t count = 0;
};

// Returns the calls by unit, up to the last unit with any, in their order: those of fewer ranks
// first. `tensors` are a rank's shares. A pure function, the same on all ranks of a tensor group.
std::vector<std::vector<SharedSum>> SharedSums(absl::Span<const TensorSpec> tensors,
                                               bool divides_tokens);

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_SHARED_SUMS_H_

#ifndef MUSTER_COMMON_PLAN_MEMORY_UNIT_BYTES_H_
#define MUSTER_COMMON_PLAN_MEMORY_UNIT_BYTES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "common/partition/tensor_spec.h"
#include "common/plan/size/model_size.h"

namespace muster {

// Returns the bytes of each unit's tensors, of which tensor i has `bytes_of(i)` an element.
template <typename BytesOf>
std::vector<uint64_t> UnitBytes(const ModelSize& model, const BytesOf& bytes_of) {
  std::vector<uint64_t> bytes;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const TensorSpec& tensor = model.tensors[i];
    bytes.resize(std::max<size_t>(bytes.size(), tensor.unit + 1));
    bytes[tensor.unit] += tensor.elements() * bytes_of(i);
  }
  return bytes;
}

inline uint64_t SumOf(const std::vector<uint64_t>& values) {
  return std::accumulate(values.begin(), values.end(), uint64_t{0});
}

// Returns the largest sum of `count` neighbours.
inline uint64_t LargestOf(const std::vector<uint64_t>& values, size_t count) {
  uint64_t largest = 0;
  for (size_t first = 0; first < values.size(); ++first) {
    uint64_t together = 0;
    for (size_t i = first; i < std::min(first + count, values.size()); ++i) together += values[i];
    largest = std::max(largest, together);
  }
  return largest;
}

}  // namespace muster

#endif  // MUSTER_COMMON_PLAN_MEMORY_UNIT_BYTES_H_

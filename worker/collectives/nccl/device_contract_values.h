#ifndef MUSTER_WORKER_COLLECTIVES_NCCL_DEVICE_CONTRACT_VALUES_H_
#define MUSTER_WORKER_COLLECTIVES_NCCL_DEVICE_CONTRACT_VALUES_H_

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/collectives/collective_call.h"
#include "worker/collectives/nccl/device_memory_for_testing.h"
#include "worker/collectives/reduce/reduce_kernels.h"

namespace muster {

// These functions make what the contract on device memory sends, and what it expects.

inline absl::Status Wrong(const std::string& what) { return absl::InternalError(what); }

// Returns the input of rank `rank` to call `salt`: -2..2 (0..4 for uint8), so that even products
// are exact.
inline HostBytes ValuesOf(int rank, size_t count, DType dtype, int salt) {
  std::vector<double> values;
  for (int i = 0; i < 5; ++i) {
    const int value = (i * 7 + rank * 3 + salt) % 5;
    values.push_back(dtype == DType::kUint8 ? value : value - 2);
  }
  const HostBytes five = Elements(dtype, values);
  HostBytes bytes(count * SizeOf(dtype));
  for (size_t at = 0; at < bytes.size(); at += five.size()) {
    std::memcpy(bytes.data() + at, five.data(), std::min(five.size(), bytes.size() - at));
  }
  return bytes;
}

// Returns the reference: all ranks' inputs reduced in rank order.
inline HostBytes Reduced(DType dtype, Reduction reduction, const std::vector<HostBytes>& inputs) {
  HostBytes out(inputs[0].size());
  std::vector<const void*> pointers;
  for (const HostBytes& input : inputs) pointers.push_back(input.data());
  ReduceOp op;
  op.dtype = dtype;
  op.reduction = reduction;
  op.divisor = reduction == Reduction::kAvg ? static_cast<int>(inputs.size()) : 1;
  ReduceInto(op, pointers, out.size() / SizeOf(dtype), out.data());
  return out;
}

inline absl::Status Compare(const HostBytes& got, const HostBytes& want, const std::string& what) {
  const auto differ = std::mismatch(got.begin(), got.end(), want.begin(), want.end());
  if (differ.first == got.end() && differ.second == want.end()) return absl::OkStatus();
  return Wrong(
      absl::StrCat(what, ": byte ", differ.first - got.begin(), " of ", want.size(), " is wrong"));
}

inline std::string Describe(const CollectiveCall& call, bool in_place, size_t offset) {
  return absl::StrCat(Name(call.kind), " ", Name(call.dtype), " ", Name(call.reduction), " x ",
                      call.count, in_place ? " in place" : "", " offset ", offset, " root ",
                      call.root, call.counts.empty() ? "" : " with counts");
}

inline std::vector<size_t> UnequalCounts(int size) {
  std::vector<size_t> counts(size);
  for (int i = 0; i < size; ++i) counts[i] = (i * 5 + 3) % 11 * (i % 3);
  return counts;
}

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_NCCL_DEVICE_CONTRACT_VALUES_H_

#include "worker/nn/low_precision_copies.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "common/base/round_up.h"
#include "common/compute/host_ops.h"

namespace muster {
namespace {

constexpr size_t kLineBytes = 64;

}  // namespace

uint64_t LowPrecisionCopies::Bytes(const TensorSpec& tensor) {
  return RoundUp(tensor.elements() * SizeOf(tensor.compute), kLineBytes);
}

LowPrecisionCopies::LowPrecisionCopies(absl::Span<const TensorSpec> tensors,
                                       const ModelParameters& held, LowPrecisionCopiesPlace place)
    : ops_(std::move(place.ops)),
      values_(held.values),
      rounded_(held.rounded.begin(), held.rounded.end()) {
  rounded_.resize(tensors.size());
  const auto bytes_of = [&](size_t i) -> size_t {
    const bool copied = tensors[i].compute != DType::kF32 && rounded_[i] == nullptr;
    return copied ? Bytes(tensors[i]) : 0;
  };
  if (place.memory == nullptr) {
    size_t total = 0;
    for (size_t i = 0; i < tensors.size(); ++i) total += bytes_of(i);
    memory_ = HugeMemory(total);
    place.memory = memory_.data();
  }
  std::byte* next = static_cast<std::byte*>(place.memory);
  for (size_t i = 0; i < tensors.size(); ++i) {
    units_.resize(std::max<size_t>(units_.size(), tensors[i].unit + 1));
    const size_t bytes = bytes_of(i);
    if (bytes == 0) continue;
    units_[tensors[i].unit].copies.push_back({.elements = tensors[i].elements(),
                                              .values = values_[i].data(),
                                              .type = tensors[i].compute,
                                              .rounded = next});
    rounded_[i] = next;
    next += bytes;
  }
}

void LowPrecisionCopies::Outdate() {
  for (Unit& unit : units_) unit.up_to_date = false;
}

void LowPrecisionCopies::Refresh(int unit) {
  // The last units of a model may have no tensors.
  if (unit >= static_cast<int>(units_.size()) || units_[unit].up_to_date) return;
  units_[unit].up_to_date = true;
  if (units_[unit].copies.empty()) return;
  HostOps on_host;
  Ops& ops = ops_ == nullptr ? on_host : ops_();
  for (const Copy& copy : units_[unit].copies) {
    ops.Convert(copy.elements, DType::kF32, copy.values, copy.type, copy.rounded);
  }
}

}  // namespace muster

#include "worker/strategy/group/gradients/slice_ops.h"

#include <algorithm>
#include <cstdint>

#include "common/kernels/elementwise.h"
#include "common/tensor/half.h"

namespace muster {
namespace {

class OnHost final : public SliceOps {
 public:
  void Copy(absl::Span<const float> from, float* to) override {
    std::copy(from.begin(), from.end(), to);
  }
  void Add(absl::Span<const float> from, float* to) override {
    AddScaled(static_cast<int64_t>(from.size()), 1, from.data(), to);
  }
  void Zero(absl::Span<float> values) override { std::fill(values.begin(), values.end(), 0.0f); }
  void Round(DType type, absl::Span<const float> from, void* to) override {
    RoundToHalf(type, from, static_cast<uint16_t*>(to));
  }
  absl::Status FollowComputation() override { return absl::OkStatus(); }
  void* stream() const override { return nullptr; }
};

}  // namespace

SliceOps& HostSliceOps() {
  static OnHost ops;
  return ops;
}

}  // namespace muster

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/machine/simd_clones.h"
#include "common/optim/optimizers.h"
#include "common/optim/packed_pairs.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// Elements that are unpacked, stepped and packed at a time, within the nearest cache.
constexpr size_t kElementsAtOnce = 1024;

// A number's bits, mixed (Wellons, "Prospecting for Hash Functions", 2018: lowbias32).
MUSTER_ALWAYS_INLINE uint32_t Mixed(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

// Rounds up with the probability in which `value` is nearer to the number above: `random` has 16
// bits. What is not finite keeps its upper half, which a NaN has a digit in.
MUSTER_ALWAYS_INLINE uint32_t RoundedAtRandom(float value, uint32_t random) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const bool finite = (bits & 0x7f800000u) != 0x7f800000u;
  // The largest numbers would become infinite.
  const bool has_room = (bits & 0x7fff0000u) != 0x7f7f0000u;
  return (bits + (finite && has_room ? random : 0)) & 0xffff0000u;
}

// Does what PairHalf does of both halves, in vector code.
MUSTER_SIMD_CLONES
void UnpackLoop(size_t n, const float* __restrict pairs, float* __restrict first,
                float* __restrict second) {
  for (size_t i = 0; i < n; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(pairs[i]);
    first[i] = std::bit_cast<float>(bits << 16);
    second[i] = std::bit_cast<float>(bits & 0xffff0000u);
  }
}

MUSTER_SIMD_CLONES
void PackLoop(uint32_t key, size_t n, const float* __restrict weights,
              const float* __restrict first, const float* __restrict second,
              float* __restrict pairs) {
  for (size_t i = 0; i < n; ++i) {
    const uint32_t numbers = Mixed(std::bit_cast<uint32_t>(weights[i]) ^ key) ^
                             std::bit_cast<uint32_t>(first[i]) ^
                             (std::bit_cast<uint32_t>(second[i]) * 0x9e3779b1u);
    const uint32_t random = Mixed(numbers);
    const uint32_t low = RoundedAtRandom(first[i], random & 0xffffu) >> 16;
    const uint32_t high = RoundedAtRandom(second[i], random >> 16);
    pairs[i] = std::bit_cast<float>(high | low);
  }
}

// An optimizer with two state arrays, both of which are kept in bf16, as the halves of floats.
class PackedState final : public Optimizer {
 public:
  explicit PackedState(std::unique_ptr<const Optimizer> optimizer)
      : optimizer_(std::move(optimizer)) {}

  const std::vector<std::string>& state_names() const override { return optimizer_->state_names(); }
  bool packs_pairs() const override { return true; }
  size_t state_floats(size_t n) const override { return n; }

  void InitState(absl::Span<const float> weights, absl::Span<float> state) const override {
    const size_t n = weights.size();
    std::vector<float> arrays(2 * n);
    optimizer_->InitState(weights, absl::MakeSpan(arrays));
    const absl::Span<const float> both = arrays;
    SetPairHalf(0, both.first(n), state);
    SetPairHalf(1, both.subspan(n), state);
  }

  void Apply(const OptimizerStep& step, absl::Span<const float> gradient, absl::Span<float> weights,
             absl::Span<float> state) const override {
    const uint32_t key =
        Mixed(static_cast<uint32_t>(step.step) ^ Mixed(static_cast<uint32_t>(step.step >> 32) + 1));
    std::array<float, 2 * kElementsAtOnce> arrays;
    for (size_t at = 0; at < weights.size(); at += kElementsAtOnce) {
      const size_t n = std::min(kElementsAtOnce, weights.size() - at);
      const absl::Span<float> some = weights.subspan(at, n);
      const absl::Span<float> pairs = state.subspan(at, n);
      const absl::Span<float> unpacked(arrays.data(), 2 * n);
      UnpackLoop(n, pairs.data(), unpacked.data(), unpacked.data() + n);
      optimizer_->Apply(step, gradient.subspan(at, n), some, unpacked);
      PackLoop(key, n, some.data(), unpacked.data(), unpacked.data() + n, pairs.data());
    }
  }

 private:
  const std::unique_ptr<const Optimizer> optimizer_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Optimizer>> WithStateType(
    const v1::OptimizerSpec& spec, std::unique_ptr<const Optimizer> optimizer,
    Granularity granularity) {
  if (!v1::OptimizerSpec::StateType_IsValid(spec.state_type())) {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.state_type is ", spec.state_type(), ": it must be F32 or BF16"));
  }
  if (spec.state_type() != v1::OptimizerSpec::BF16) return optimizer;
  if (spec.name() != "adam" && spec.name() != "adamw") {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.state_type is BF16, but optimizer.name is ", spec.name(),
                     ": only the two arrays of adam and adamw are kept in 16 bits; take one of "
                     "them, or leave state_type out"));
  }
  if (granularity == Granularity::kRow) return optimizer;
  return std::make_unique<PackedState>(std::move(optimizer));
}

}  // namespace muster

#ifndef MUSTER_TESTS_EQUIVALENCE_POISONING_STRATEGY_H_
#define MUSTER_TESTS_EQUIVALENCE_POISONING_STRATEGY_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "tests/equivalence/forwarding_strategy.h"

namespace muster {

// Gradients that hold nothing in particular hold NaN: so a model that did not write them all, or a
// server that still read a step's when the next one's may be written, would not stay unseen.
class PoisoningStrategy final : public ForwardingStrategy {
 public:
  // The strategy must outlive this one.
  explicit PoisoningStrategy(Strategy& inner) : ForwardingStrategy(inner) {}

  absl::Status BeginStep(uint64_t clock) override {
    first_ = true;
    return ForwardingStrategy::BeginStep(clock);
  }
  absl::Status BeforeBackward(uint64_t examples, SeriesPosition position) override {
    const absl::Status status = ForwardingStrategy::BeforeBackward(examples, position);
    if (first_ && status.ok()) {
      for (const absl::Span<float> gradient : gradients()) {
        std::fill(gradient.begin(), gradient.end(), std::numeric_limits<float>::quiet_NaN());
      }
    }
    first_ = false;
    return status;
  }

 private:
  bool first_ = true;
};

}  // namespace muster

#endif  // MUSTER_TESTS_EQUIVALENCE_POISONING_STRATEGY_H_

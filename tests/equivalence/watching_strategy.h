#ifndef MUSTER_TESTS_EQUIVALENCE_WATCHING_STRATEGY_H_
#define MUSTER_TESTS_EQUIVALENCE_WATCHING_STRATEGY_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/partition/tensor_spec.h"
#include "common/tensor/dtype.h"
#include "gtest/gtest.h"
#include "tests/equivalence/forwarding_strategy.h"

namespace muster {

// Does what another strategy does, and fails the test if a unit's parameters change between Acquire
// and Release: units share places in memory, to which the next one comes while one is in use. For
// parameters in this process's memory.
class WatchingStrategy final : public ForwardingStrategy {
 public:
  // `tensors` are the model's. Both outlive this.
  WatchingStrategy(Strategy& inner, const std::vector<TensorSpec>& tensors)
      : ForwardingStrategy(inner), tensors_(tensors) {}

  absl::Status Acquire(int unit, Direction direction) override {
    const absl::Status status = ForwardingStrategy::Acquire(unit, direction);
    if (status.ok()) acquired_[unit] = Read(unit);
    return status;
  }

  void Release(int unit, Direction direction) override {
    EXPECT_TRUE(Read(unit) == acquired_[unit])
        << "the parameters of unit " << unit << " changed while they were in use";
    acquired_.erase(unit);
    ForwardingStrategy::Release(unit, direction);
  }

 private:
  // Returns the bytes of the unit's parameters.
  std::string Read(int unit) const {
    const ModelParameters parameters = ForwardingStrategy::parameters();
    std::string bytes;
    for (size_t t = 0; t < tensors_.size(); ++t) {
      if (static_cast<int>(tensors_[t].unit) != unit) continue;
      const auto& values = parameters.values[t];
      bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
      if (tensors_[t].compute == DType::kF32) continue;
      bytes.append(static_cast<const char*>(parameters.rounded[t]),
                   tensors_[t].elements() * SizeOf(tensors_[t].compute));
    }
    return bytes;
  }

  const std::vector<TensorSpec>& tensors_;
  std::map<int, std::string> acquired_;
};

}  // namespace muster

#endif  // MUSTER_TESTS_EQUIVALENCE_WATCHING_STRATEGY_H_

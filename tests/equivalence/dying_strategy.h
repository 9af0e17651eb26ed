#ifndef MUSTER_TESTS_EQUIVALENCE_DYING_STRATEGY_H_
#define MUSTER_TESTS_EQUIVALENCE_DYING_STRATEGY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "tests/equivalence/forwarding_strategy.h"

namespace muster {

// A task that ends without a word.
struct Death {
  uint32_t slot = 0;
  // How many of its strategy's hooks the task gets to call.
  int hooks = 0;
  // Whether the last of these still takes effect.
  bool takes_effect = false;
};

// Passes hooks on until its task is to die: then they are Internal.
class DyingStrategy final : public ForwardingStrategy {
 public:
  // The strategy must outlive this one.
  DyingStrategy(Strategy& inner, const Death& death) : ForwardingStrategy(inner), death_(death) {}

  bool died() const { return calls_ >= death_.hooks; }

 private:
  absl::Status Call(const Hook& hook) override {
    if (++calls_ < death_.hooks) return hook();
    if (death_.takes_effect) hook().IgnoreError();
    return absl::InternalError("the task dies here");
  }

  const Death death_;
  int calls_ = 0;
};

}  // namespace muster

#endif  // MUSTER_TESTS_EQUIVALENCE_DYING_STRATEGY_H_

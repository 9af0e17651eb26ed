#ifndef MUSTER_TESTS_EQUIVALENCE_DYING_STRATEGY_H_
#define MUSTER_TESTS_EQUIVALENCE_DYING_STRATEGY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "tests/equivalence/forwarding_strategy.h"

namespace muster {

// The nth call of a hook in a task's step, both counted from 1 on. A step ends with its EndStep, so
// an evaluation's calls belong to the step that follows it.
struct HookCall {
  Hook hook = Hook::kBeginStep;
  int step = 1;
  int nth = 1;

  friend bool operator==(const HookCall& a, const HookCall& b) = default;
};

// A task that ends without a word.
struct Death {
  uint32_t slot = 0;
  // The call of its strategy at which the task ends.
  HookCall at;
  // Whether this call still takes effect.
  bool takes_effect = false;
};

// Keeps what hooks a task calls. Passes them on until the task is to die: then they are Internal.
class DyingStrategy final : public ForwardingStrategy {
 public:
  // Without a death the task lives. The strategy must outlive this one.
  DyingStrategy(Strategy& inner, const absl::optional<Death>& death)
      : ForwardingStrategy(inner), death_(death) {}

  bool died() const { return died_; }
  // In their order, failed ones included.
  const std::vector<HookCall>& calls() const { return calls_; }

 private:
  absl::Status Call(Hook hook, const std::function<absl::Status()>& call) override {
    if (!died_) {
      calls_.push_back({hook, step_, ++calls_of_step_[hook]});
      died_ = death_.has_value() && calls_.back() == death_->at;
      if (hook == Hook::kEndStep) {
        ++step_;
        calls_of_step_.clear();
      }
      if (!died_) return call();
      if (death_->takes_effect) call().IgnoreError();
    }
    return absl::InternalError("the task dies here");
  }

  const absl::optional<Death> death_;
  bool died_ = false;
  int step_ = 1;
  std::map<Hook, int> calls_of_step_;
  std::vector<HookCall> calls_;
};

}  // namespace muster

#endif  // MUSTER_TESTS_EQUIVALENCE_DYING_STRATEGY_H_

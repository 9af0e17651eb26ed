#ifndef MUSTER_COMMON_OPTIM_OPTIMIZER_OPTIONS_H_
#define MUSTER_COMMON_OPTIM_OPTIMIZER_OPTIONS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

namespace v1 {
class OptimizerSpec;
}  // namespace v1

// The options of an OptimizerSpec; each optimizer reads its own.
struct OptimizerOptions {
  float momentum = 0.9f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
  float weight_decay = 0;
  float l1 = 0;
  float l2 = 0;
  float decay = 0.9f;
  float initial_accumulator = 0;
  float beta = 1;
};

// Returns the defaults with the options set that the specification has. InvalidArgument: the
// learning rate is not positive and finite, an option is out of range, or one is set that is not in
// `used`; the message names the optimizer, the field, the value and what would be right.
absl::StatusOr<OptimizerOptions> ReadOptimizerOptions(const v1::OptimizerSpec& spec,
                                                      const std::vector<absl::string_view>& used,
                                                      OptimizerOptions defaults);

// Reads the options of adam and adamw, as optimizer.h says. InvalidArgument also for other
// optimizers.
absl::StatusOr<OptimizerOptions> ReadAdamOptions(const v1::OptimizerSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_OPTIM_OPTIMIZER_OPTIONS_H_

#include "common/optim/optimizer_options.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

enum class Range { kPositive, kNotNegative, kBelowOne };

bool InRange(Range range, float value) {
  switch (range) {
    case Range::kPositive:
      return std::isfinite(value) && value > 0;
    case Range::kNotNegative:
      return std::isfinite(value) && value >= 0;
    case Range::kBelowOne:
      return value >= 0 && value < 1;
  }
  return false;
}

absl::string_view Describe(Range range) {
  switch (range) {
    case Range::kPositive:
      return "a finite number above 0";
    case Range::kNotNegative:
      return "a finite number of at least 0";
    case Range::kBelowOne:
      return "a number in [0, 1)";
  }
  return "";
}

// One optional field of the specification.
struct Field {
  absl::string_view name;
  bool set;
  float value;
  Range range;
  float* destination;
};

}  // namespace

absl::StatusOr<OptimizerOptions> ReadOptimizerOptions(const v1::OptimizerSpec& spec,
                                                      const std::vector<absl::string_view>& used,
                                                      OptimizerOptions defaults) {
  if (!InRange(Range::kPositive, spec.learning_rate())) {
    return absl::InvalidArgumentError(absl::StrCat("optimizer.learning_rate is ",
                                                   spec.learning_rate(), ": it must be ",
                                                   Describe(Range::kPositive)));
  }
  OptimizerOptions options = defaults;
  const Field fields[] = {
      {"momentum", spec.has_momentum(), spec.momentum(), Range::kBelowOne, &options.momentum},
      {"beta1", spec.has_beta1(), spec.beta1(), Range::kBelowOne, &options.beta1},
      {"beta2", spec.has_beta2(), spec.beta2(), Range::kBelowOne, &options.beta2},
      {"epsilon", spec.has_epsilon(), spec.epsilon(), Range::kPositive, &options.epsilon},
      {"weight_decay", spec.has_weight_decay(), spec.weight_decay(), Range::kNotNegative,
       &options.weight_decay},
      {"l1", spec.has_l1(), spec.l1(), Range::kNotNegative, &options.l1},
      {"l2", spec.has_l2(), spec.l2(), Range::kNotNegative, &options.l2},
      {"decay", spec.has_decay(), spec.decay(), Range::kBelowOne, &options.decay},
      {"initial_accumulator", spec.has_initial_accumulator(), spec.initial_accumulator(),
       Range::kNotNegative, &options.initial_accumulator},
      {"beta", spec.has_beta(), spec.beta(), Range::kNotNegative, &options.beta},
  };
  for (const Field& field : fields) {
    if (!field.set) continue;
    if (std::find(used.begin(), used.end(), field.name) == used.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("optimizer.", field.name, " is ", field.value, ", but ", spec.name(),
                       " has no such option: leave it out; the options of ", spec.name(),
                       " are learning_rate, ", absl::StrJoin(used, ", ")));
    }
    if (!InRange(field.range, field.value)) {
      return absl::InvalidArgumentError(absl::StrCat("optimizer.", field.name, " is ", field.value,
                                                     " for ", spec.name(), ": it must be ",
                                                     Describe(field.range)));
    }
    *field.destination = field.value;
  }
  return options;
}

absl::StatusOr<OptimizerOptions> ReadAdamOptions(const v1::OptimizerSpec& spec) {
  if (spec.name() != "adam" && spec.name() != "adamw") {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.name is \"", spec.name(), "\"; it must be adam or adamw"));
  }
  OptimizerOptions defaults;
  defaults.weight_decay = spec.name() == "adamw" ? 0.01f : 0;
  return ReadOptimizerOptions(spec, {"beta1", "beta2", "epsilon", "weight_decay"}, defaults);
}

}  // namespace muster

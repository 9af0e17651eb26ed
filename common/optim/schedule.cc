#include "common/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/text/did_you_mean.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

absl::Status NotUsed(const v1::ScheduleSpec& spec, absl::string_view field, absl::AlphaNum value,
                     absl::string_view users) {
  return absl::InvalidArgumentError(
      absl::StrCat("schedule.", field, " is ", value, ", but schedule ",
                   spec.name().empty() ? "constant" : spec.name(),
                   " does not use it: leave it out, or take ", users));
}

absl::Status ValidateScaling(const v1::ScheduleSpec& spec) {
  const std::string& scaling = spec.scaling();
  if (scaling.empty() || scaling == "none") {
    if (spec.base_batch_size() == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule.base_batch_size is ", spec.base_batch_size(),
        ", but schedule.scaling is none: leave it out, or take linear or square_root"));
  }
  if (scaling != "linear" && scaling != "square_root") {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule.scaling is \"", scaling, "\": it must be one of none, linear, square_root"));
  }
  if (spec.base_batch_size() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule.base_batch_size is 0: scaling ", scaling,
                     " needs the batch size that the learning rate was chosen for"));
  }
  return absl::OkStatus();
}

// From 0 at the end of the warm-up to 1 at the end of the schedule.
double Progress(uint64_t since_warmup, uint64_t warmup, uint64_t total) {
  if (total <= warmup) return 1;
  return std::min(1.0, static_cast<double>(since_warmup) / static_cast<double>(total - warmup));
}

}  // namespace

absl::Status ValidateSchedule(const v1::ScheduleSpec& spec) {
  const std::string& name = spec.name();
  const bool step = name == "step";
  const bool decays_to_end = name == "linear" || name == "cosine";
  if (!step && !decays_to_end && !name.empty() && name != "constant" &&
      name != "inverse_square_root") {
    const std::vector<std::string> names = {"constant", "step", "linear", "cosine",
                                            "inverse_square_root"};
    return absl::InvalidArgumentError(
        absl::StrCat("schedule.name is \"", name, "\": it must be one of ",
                     absl::StrJoin(names, ", "), DidYouMean(name, names)));
  }
  if (!step && spec.period() != 0) return NotUsed(spec, "period", spec.period(), "step");
  if (!step && spec.factor() != 0) return NotUsed(spec, "factor", spec.factor(), "step");
  if (!decays_to_end && spec.final_fraction() != 0) {
    return NotUsed(spec, "final_fraction", spec.final_fraction(), "linear or cosine");
  }
  if (!decays_to_end && spec.total_steps() != 0) {
    return NotUsed(spec, "total_steps", spec.total_steps(), "linear or cosine");
  }
  if (step && spec.period() == 0) {
    return absl::InvalidArgumentError(
        "schedule.period is 0: schedule step needs the number of steps between reductions");
  }
  if (step && !(spec.factor() > 0 && spec.factor() <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("schedule.factor is ", spec.factor(),
                                                   ": schedule step needs a number in (0, 1]"));
  }
  if (decays_to_end && !(spec.final_fraction() >= 0 && spec.final_fraction() <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule.final_fraction is ", spec.final_fraction(), ": it must be a number in [0, 1]"));
  }
  if (decays_to_end && spec.total_steps() != 0 && spec.total_steps() <= spec.warmup_steps()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule.total_steps is ", spec.total_steps(), ": it must be above warmup_steps, ",
        spec.warmup_steps(), ", or 0 for the job's last step"));
  }
  return ValidateScaling(spec);
}

float LearningRate(const v1::ScheduleSpec& spec, float base, uint64_t clock, uint64_t total_steps) {
  const uint64_t warmup = spec.warmup_steps();
  const double step = static_cast<double>(clock) + 1;
  if (clock < warmup) return static_cast<float>(base * (step / static_cast<double>(warmup)));

  const uint64_t since = clock - warmup;
  const uint64_t total = spec.total_steps() != 0 ? spec.total_steps() : total_steps;
  const double final_fraction = spec.final_fraction();
  double fraction = 1;
  if (spec.name() == "step") {
    fraction =
        std::pow(static_cast<double>(spec.factor()), static_cast<double>(since / spec.period()));
  } else if (spec.name() == "linear") {
    fraction = 1 - (1 - final_fraction) * Progress(since, warmup, total);
  } else if (spec.name() == "cosine") {
    fraction =
        final_fraction + (1 - final_fraction) * 0.5 *
                             (1 + std::cos(std::numbers::pi * Progress(since, warmup, total)));
  } else if (spec.name() == "inverse_square_root") {
    fraction = std::sqrt(static_cast<double>(std::max<uint64_t>(warmup, 1)) / step);
  }
  return static_cast<float>(base * fraction);
}

float ScaledLearningRate(const v1::ScheduleSpec& spec, float rate, uint32_t batch_size) {
  if (spec.scaling().empty() || spec.scaling() == "none") return rate;
  const double k = static_cast<double>(batch_size) / spec.base_batch_size();
  return static_cast<float>(rate * (spec.scaling() == "linear" ? k : std::sqrt(k)));
}

}  // namespace muster

#include "common/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
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

// Lists what a schedule's specification may have, by its name.
struct ScheduleKind {
  absl::string_view name;
  // `period` is between reductions by `factor`, or up to the first restart of a cosine.
  bool steps = false;
  bool restarts = false;
  // To `final_fraction` at `total_steps`.
  bool falls = false;
  bool decay = false;
  bool points = false;
};

constexpr ScheduleKind kSchedules[] = {
    {.name = "constant"},
    {.name = "step", .steps = true},
    {.name = "linear", .falls = true},
    {.name = "cosine", .falls = true},
    {.name = "cosine_restarts", .restarts = true},
    {.name = "inverse_square_root"},
    {.name = "warmup_stable_decay", .falls = true, .decay = true},
    {.name = "piecewise_constant", .points = true},
    {.name = "piecewise_linear", .points = true},
};

const ScheduleKind* FindSchedule(absl::string_view name) {
  if (name.empty()) name = "constant";
  for (const ScheduleKind& kind : kSchedules) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

absl::Status CheckUsedFields(const v1::ScheduleSpec& spec, const ScheduleKind& kind) {
  if (!kind.steps && !kind.restarts && spec.period() != 0) {
    return NotUsed(spec, "period", spec.period(), "step or cosine_restarts");
  }
  if (!kind.steps && spec.factor() != 0) return NotUsed(spec, "factor", spec.factor(), "step");
  if (!kind.restarts && spec.period_growth() != 0) {
    return NotUsed(spec, "period_growth", spec.period_growth(), "cosine_restarts");
  }
  if (!kind.falls && !kind.restarts && spec.final_fraction() != 0) {
    return NotUsed(spec, "final_fraction", spec.final_fraction(),
                   "linear, cosine, cosine_restarts or warmup_stable_decay");
  }
  if (!kind.falls && spec.total_steps() != 0) {
    return NotUsed(spec, "total_steps", spec.total_steps(),
                   "linear, cosine or warmup_stable_decay");
  }
  if (!kind.decay) {
    const absl::string_view users = "warmup_stable_decay";
    if (spec.decay_steps() != 0) return NotUsed(spec, "decay_steps", spec.decay_steps(), users);
    if (!spec.decay_shape().empty()) {
      return NotUsed(spec, "decay_shape", spec.decay_shape(), users);
    }
  }
  if (!kind.points && spec.points_size() > 0) {
    return NotUsed(spec, "points", absl::StrCat(spec.points_size(), " points"),
                   "piecewise_constant or piecewise_linear");
  }
  return absl::OkStatus();
}

absl::Status ValidateDecay(const v1::ScheduleSpec& spec) {
  if (spec.decay_steps() == 0) {
    return absl::InvalidArgumentError(
        "schedule.decay_steps is 0: schedule warmup_stable_decay needs the number of steps over "
        "which the rate falls at the end");
  }
  const std::string& shape = spec.decay_shape();
  if (!shape.empty() && shape != "linear" && shape != "cosine" && shape != "square_root") {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule.decay_shape is \"", shape, "\": it must be one of linear, cosine, square_root",
        DidYouMean(shape, {"linear", "cosine", "square_root"})));
  }
  const uint64_t total = spec.total_steps();
  if (total != 0 && spec.decay_steps() > total - spec.warmup_steps()) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule.decay_steps is ", spec.decay_steps(), ": after warmup_steps, ",
                     spec.warmup_steps(), ", total_steps, ", total, ", leaves ",
                     total - spec.warmup_steps(), " steps; it must be at most so many"));
  }
  return absl::OkStatus();
}

absl::Status ValidatePlateau(const v1::PlateauSpec& spec) {
  if (spec.factor() != 0 && !(spec.factor() > 0 && spec.factor() < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule.plateau.factor is ", spec.factor(),
                     ": it must be a number between 0 and 1, or 0 for 0.1"));
  }
  if (!(spec.threshold() >= 0 && spec.threshold() < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule.plateau.threshold is ", spec.threshold(),
                     ": it must be a number in [0, 1), of which 0 stands for 0.0001"));
  }
  if (!(spec.min_factor() >= 0 && spec.min_factor() <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule.plateau.min_factor is ", spec.min_factor(), ": it must be a number in [0, 1]"));
  }
  return absl::OkStatus();
}

absl::Status ValidatePoints(const v1::ScheduleSpec& spec) {
  if (spec.points().empty()) {
    return absl::InvalidArgumentError(absl::StrCat("schedule.points is empty: schedule ",
                                                   spec.name(),
                                                   " needs steps with factors of the rate"));
  }
  uint64_t least = spec.warmup_steps();
  for (int i = 0; i < spec.points_size(); ++i) {
    const v1::SchedulePoint& point = spec.points(i);
    if (point.step() < least) {
      return absl::InvalidArgumentError(absl::StrCat(
          "schedule.points[", i, "].step is ", point.step(), ": it must be at least ", least,
          i == 0 ? ", which is warmup_steps" : ", since each point comes after the one before"));
    }
    if (!(point.factor() >= 0 && std::isfinite(point.factor()))) {
      return absl::InvalidArgumentError(absl::StrCat("schedule.points[", i, "].factor is ",
                                                     point.factor(),
                                                     ": it must be a finite number of at least 0"));
    }
    least = point.step() + 1;
  }
  return absl::OkStatus();
}

// From 0 at clock `begin` to 1 at clock `end`, and from there on.
double Progress(uint64_t clock, uint64_t begin, uint64_t end) {
  if (end <= begin) return 1;
  return std::min(1.0, static_cast<double>(clock - begin) / static_cast<double>(end - begin));
}

// The share of a decay that is left at progress `p`.
double LeftOfDecay(absl::string_view shape, double p) {
  if (shape == "cosine") return 0.5 * (1 + std::cos(std::numbers::pi * p));
  if (shape == "square_root") return 1 - std::sqrt(p);
  return 1 - p;
}

double DecayFraction(const v1::ScheduleSpec& spec, uint64_t clock, uint64_t total) {
  const uint64_t warmup = spec.warmup_steps();
  const bool stable_first = spec.name() == "warmup_stable_decay";
  uint64_t begin = warmup;
  if (stable_first && total > spec.decay_steps()) {
    begin = std::max(warmup, total - spec.decay_steps());
  }
  if (clock < begin) return 1;
  const double final_fraction = spec.final_fraction();
  const absl::string_view shape = stable_first ? spec.decay_shape() : spec.name();
  return final_fraction + (1 - final_fraction) * LeftOfDecay(shape, Progress(clock, begin, total));
}

// The fraction of the rate `steps` steps after the warm-up.
double RestartFraction(const v1::ScheduleSpec& spec, uint64_t steps) {
  const double growth = spec.period_growth() == 0 ? 1 : spec.period_growth();
  uint64_t period = spec.period();
  if (growth == 1) {
    steps %= period;
  } else {
    // Rounded from the exact length, so that errors do not add up.
    for (double exact = period; steps >= period;) {
      steps -= period;
      exact *= growth;
      // No job gets to the end of a period that 64 bits do not hold.
      if (exact > 1e18) break;
      period = static_cast<uint64_t>(std::llround(exact));
    }
  }
  const double final_fraction = spec.final_fraction();
  const double left = LeftOfDecay("cosine", Progress(steps, 0, period));
  return final_fraction + (1 - final_fraction) * left;
}

double PointFraction(const v1::ScheduleSpec& spec, uint64_t clock) {
  uint64_t step = spec.warmup_steps();
  double factor = 1;
  for (const v1::SchedulePoint& point : spec.points()) {
    if (point.step() > clock) {
      if (spec.name() == "piecewise_constant") return factor;
      return factor + (point.factor() - factor) * Progress(clock, step, point.step());
    }
    step = point.step();
    factor = point.factor();
  }
  return factor;
}

}  // namespace

absl::Status ValidateSchedule(const v1::ScheduleSpec& spec) {
  const ScheduleKind* const kind = FindSchedule(spec.name());
  if (kind == nullptr) {
    std::vector<std::string> names;
    for (const ScheduleKind& known : kSchedules) names.emplace_back(known.name);
    return absl::InvalidArgumentError(
        absl::StrCat("schedule.name is \"", spec.name(), "\": it must be one of ",
                     absl::StrJoin(names, ", "), DidYouMean(spec.name(), names)));
  }
  MUSTER_RETURN_IF_ERROR(CheckUsedFields(spec, *kind));
  if (kind->steps && spec.period() == 0) {
    return absl::InvalidArgumentError(
        "schedule.period is 0: schedule step needs the number of steps between reductions");
  }
  if (kind->restarts && spec.period() == 0) {
    return absl::InvalidArgumentError(
        "schedule.period is 0: schedule cosine_restarts needs the number of steps until the first "
        "restart");
  }
  if (kind->restarts && spec.period_growth() != 0 &&
      !(spec.period_growth() >= 1 && std::isfinite(spec.period_growth()))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule.period_growth is ", spec.period_growth(), ": it must be a number of at least 1"));
  }
  if (kind->steps && !(spec.factor() > 0 && spec.factor() <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("schedule.factor is ", spec.factor(),
                                                   ": schedule step needs a number in (0, 1]"));
  }
  if ((kind->falls || kind->restarts) &&
      !(spec.final_fraction() >= 0 && spec.final_fraction() <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule.final_fraction is ", spec.final_fraction(), ": it must be a number in [0, 1]"));
  }
  if (kind->falls && spec.total_steps() != 0 && spec.total_steps() <= spec.warmup_steps()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule.total_steps is ", spec.total_steps(), ": it must be above warmup_steps, ",
        spec.warmup_steps(), ", or 0 for the job's last step"));
  }
  if (kind->decay) MUSTER_RETURN_IF_ERROR(ValidateDecay(spec));
  if (kind->points) MUSTER_RETURN_IF_ERROR(ValidatePoints(spec));
  if (spec.has_plateau()) MUSTER_RETURN_IF_ERROR(ValidatePlateau(spec.plateau()));
  return ValidateScaling(spec);
}

float LearningRate(const v1::ScheduleSpec& spec, float base, uint64_t clock, uint64_t total_steps,
                   double rate_factor) {
  const uint64_t warmup = spec.warmup_steps();
  const double step = static_cast<double>(clock) + 1;
  if (clock < warmup) {
    return static_cast<float>(base * (step / static_cast<double>(warmup)) * rate_factor);
  }

  const ScheduleKind* const kind = FindSchedule(spec.name());
  const uint64_t total = spec.total_steps() != 0 ? spec.total_steps() : total_steps;
  double fraction = 1;
  if (kind->steps) {
    fraction = std::pow(static_cast<double>(spec.factor()),
                        static_cast<double>((clock - warmup) / spec.period()));
  } else if (kind->falls) {
    fraction = DecayFraction(spec, clock, total);
  } else if (kind->restarts) {
    fraction = RestartFraction(spec, clock - warmup);
  } else if (kind->points) {
    fraction = PointFraction(spec, clock);
  } else if (spec.name() == "inverse_square_root") {
    fraction = std::sqrt(static_cast<double>(std::max<uint64_t>(warmup, 1)) / step);
  }
  return static_cast<float>(base * fraction * rate_factor);
}

double BatchScale(const v1::ScheduleSpec& spec, int64_t batch_size) {
  if (spec.scaling().empty() || spec.scaling() == "none") return 1;
  const double k = static_cast<double>(batch_size) / spec.base_batch_size();
  return spec.scaling() == "linear" ? k : std::sqrt(k);
}

float ScaledLearningRate(const v1::ScheduleSpec& spec, float rate, uint32_t batch_size) {
  return static_cast<float>(rate * BatchScale(spec, batch_size));
}

}  // namespace muster

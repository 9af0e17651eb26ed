#include "server/coordinator/adjust/plateau.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/eval/metric.h"
#include "common/job/adjustments.h"
#include "proto/job.pb.h"
#include "proto/job_record.pb.h"

namespace muster {
namespace {

constexpr double kDefaultFactor = 0.1;
constexpr uint32_t kDefaultPatience = 10;
constexpr double kDefaultThreshold = 1e-4;

// Returns the number whose decimal form is a float's shortest: a user who writes 0.1 means 0.1.
double Meant(float value) {
  double meant = 0;
  return absl::SimpleAtod(absl::StrCat(value), &meant) ? meant : value;
}

double OrDefault(float value, double standard) { return value == 0 ? standard : Meant(value); }

// Evaluations one after another, as the plateau's rule counts them.
class BadEvaluations {
 public:
  explicit BadEvaluations(const v1::PlateauSpec& spec)
      : threshold_(OrDefault(spec.threshold(), kDefaultThreshold)), cooldown_(spec.cooldown()) {}

  void Add(const v1::EvaluationResult& result) {
    const bool better = best_ == nullptr || IsMuchBetter(result);
    if (better) best_ = &result;
    bad_ = better ? 0 : bad_ + 1;
    if (left_ == 0) return;
    --left_;
    bad_ = 0;
  }

  void RateChanged() {
    left_ = cooldown_;
    bad_ = 0;
  }

  const v1::EvaluationResult* best() const { return best_; }
  uint32_t bad() const { return bad_; }

 private:
  bool IsMuchBetter(const v1::EvaluationResult& result) const {
    const double least = threshold_ * std::abs(best_->value());
    return HigherIsBetter(result.metric()) ? result.value() > best_->value() + least
                                           : result.value() < best_->value() - least;
  }

  const double threshold_;
  const uint32_t cooldown_;
  const v1::EvaluationResult* best_ = nullptr;
  uint32_t bad_ = 0;
  // Number of evaluations of the cooldown that are still to come.
  uint32_t left_ = 0;
};

}  // namespace

std::string DecidePlateau(const AdjustmentFacts& facts, v1::Adjustment& next) {
  const v1::PlateauSpec& spec = facts.record.spec().schedule().plateau();
  if (!facts.record.spec().schedule().has_plateau()) return "";
  const Adjustments decided(facts.record.adjustments());
  BadEvaluations counted(spec);
  double factor = decided.RateFactor(facts.record.initial_clock());
  bool evaluated = false;
  for (const v1::EvaluationResult& result : facts.record.evaluations()) {
    if (result.clock() > facts.clock) break;
    if (!result.no_value().empty() || std::isnan(result.value())) continue;
    // A change at an evaluation's clock was decided after it.
    const double before = decided.RateFactor(std::max<uint64_t>(result.clock(), 1) - 1);
    if (before != factor) counted.RateChanged();
    counted.Add(result);
    factor = decided.RateFactor(result.clock());
    if (factor != before) counted.RateChanged();
    evaluated = result.clock() == facts.clock;
  }
  const uint32_t patience = spec.patience() == 0 ? kDefaultPatience : spec.patience();
  if (!evaluated || counted.bad() <= patience) return "";
  const double lowered = std::max(next.rate_factor() * OrDefault(spec.factor(), kDefaultFactor),
                                  Meant(spec.min_factor()));
  if (lowered >= next.rate_factor()) return "";
  next.set_rate_factor(lowered);
  return absl::StrCat(counted.bad(), " evaluations in a row were no better than at step ",
                      counted.best()->clock(), " (", counted.best()->metric(), " ",
                      counted.best()->value(), ")");
}

}  // namespace muster

#include "common/job/validation/divergence_validator.h"

#include <cmath>

#include "common/job/validation/invalid.h"
#include "proto/job.pb.h"

namespace muster {

absl::Status ValidateDivergence(const v1::JobSpec& spec) {
  if (!spec.has_divergence()) return absl::OkStatus();
  const v1::DivergenceSpec& divergence = spec.divergence();
  if (spec.stop().evaluate_only()) {
    return Invalid("divergence", "set", "but the job only evaluates; leave it out");
  }
  if (divergence.max_returns() == 0) {
    return Invalid("divergence.max_returns", 0,
                   "say how often the job may go back before it fails; or leave divergence out");
  }
  if (divergence.jump() != 0 && !(divergence.jump() > 1 && std::isfinite(divergence.jump()))) {
    return Invalid("divergence.jump", divergence.jump(),
                   "it is a multiple of the mean loss, above 1; 0 stands for none");
  }
  const float factor = divergence.rate_factor();
  if (!(factor >= 0 && factor <= 1)) {
    return Invalid("divergence.rate_factor", factor, "it must be a number in (0, 1], or 0 for 0.5");
  }
  if (factor == 1 && !divergence.skip_examples()) {
    return Invalid("divergence.rate_factor", factor,
                   "but divergence.skip_examples is false, so the job would go back to make the "
                   "same steps again; lower the rate, or skip the examples");
  }
  return absl::OkStatus();
}

}  // namespace muster

#include "server/coordinator/job/adjust_gatherer.h"

namespace muster {

void AdjustGatherer::Add(const v1::AdjustRequest& request) {
  if (any() && clock() != request.clock()) Clear();
  requests_[request.task().slot()] = request;
}

absl::optional<double> AdjustGatherer::noise_scale() const {
  for (const auto& [slot, request] : requests_) {
    if (request.has_noise_scale()) return request.noise_scale();
  }
  return absl::nullopt;
}

}  // namespace muster

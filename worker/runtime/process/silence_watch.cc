#include "worker/runtime/process/silence_watch.h"

namespace muster {

void SilenceWatch::Heard(absl::Duration now) {
  heard_ = now;
  looked_ = now;
}

bool SilenceWatch::IsSilent(absl::Duration now) {
  if (!heard_.has_value()) return false;
  const absl::Duration since = now - looked_;
  looked_ = now;
  if (since > 2 * kLookEvery) *heard_ += since - kLookEvery;
  return now - *heard_ > limit_;
}

}  // namespace muster

#include "server/shard/calls/parked_calls.h"

#include <algorithm>
#include <limits>

namespace muster {

void ParkedCalls::Park(uint64_t clocks, AdmittedCall&& call) {
  if (calls_.size() >= sweep_at_) {
    DropCancelled();
    sweep_at_ = std::max<size_t>(64, 2 * calls_.size());
  }
  const auto place = calls_.emplace(clocks, AdmittedCall());
  bytes_ += call.bytes();
  place->second = std::move(call);
}

void ParkedCalls::DropCancelled() {
  for (auto it = calls_.begin(); it != calls_.end();) {
    if (it->second.cancelled()) {
      bytes_ -= it->second.bytes();
      it = calls_.erase(it);
    } else {
      ++it;
    }
  }
}

std::optional<AdmittedCall> ParkedCalls::TakeReady(uint64_t clocks) {
  if (calls_.empty() || calls_.begin()->first > clocks) return std::nullopt;
  std::optional<AdmittedCall> ready = std::move(calls_.begin()->second);
  bytes_ -= ready->bytes();
  calls_.erase(calls_.begin());
  return ready;
}

std::optional<AdmittedCall> ParkedCalls::TakeAny() {
  return TakeReady(std::numeric_limits<uint64_t>::max());
}

}  // namespace muster

#include "server/shard/calls/parked_calls.h"

#include <algorithm>
#include <iterator>
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
  return Take(calls_.begin());
}

AdmittedCall ParkedCalls::Take(std::multimap<uint64_t, AdmittedCall>::iterator place) {
  AdmittedCall taken = std::move(place->second);
  bytes_ -= taken.bytes();
  calls_.erase(place);
  return taken;
}

AdmittedCall ParkedCalls::TakeLast() { return Take(std::prev(calls_.end())); }

std::optional<AdmittedCall> ParkedCalls::TakeAny() {
  return TakeReady(std::numeric_limits<uint64_t>::max());
}

}  // namespace muster

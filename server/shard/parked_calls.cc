#include "server/shard/parked_calls.h"

#include <algorithm>
#include <limits>

namespace muster {

void ParkedCalls::Park(uint64_t clocks, AdmittedCall call) {
  if (calls_.size() >= sweep_at_) {
    DropCancelled();
    sweep_at_ = std::max<size_t>(64, 2 * calls_.size());
  }
  bytes_ += call.bytes();
  calls_.emplace(clocks, std::move(call));
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

std::vector<AdmittedCall> ParkedCalls::TakeReady(uint64_t clocks) {
  std::vector<AdmittedCall> ready;
  while (!calls_.empty() && calls_.begin()->first <= clocks) {
    bytes_ -= calls_.begin()->second.bytes();
    ready.push_back(std::move(calls_.begin()->second));
    calls_.erase(calls_.begin());
  }
  return ready;
}

std::vector<AdmittedCall> ParkedCalls::TakeAll() {
  return TakeReady(std::numeric_limits<uint64_t>::max());
}

}  // namespace muster

#include "server/shard/resources/ended_slots.h"

#include "proto/cluster_service.pb.h"

namespace muster {

void EndedSlots::Set(const v1::HeartbeatReply& orders) {
  absl::MutexLock lock(&mutex_);
  slots_.clear();
  for (const v1::EndedSlots& ended : orders.ended_slots()) {
    slots_[{ended.job_id(), ended.generation()}] = {ended.slots().begin(), ended.slots().end()};
  }
}

std::vector<uint32_t> EndedSlots::Of(const std::string& job_id, uint64_t generation) const {
  absl::ReaderMutexLock lock(&mutex_);
  if (slots_.empty()) return {};
  const auto found = slots_.find({job_id, generation});
  return found == slots_.end() ? std::vector<uint32_t>() : found->second;
}

}  // namespace muster

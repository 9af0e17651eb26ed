#include "server/shard/resources/replay_meter.h"

#include "proto/status.pb.h"

namespace muster {

ReplayMeter::Partition::Partition(ReplayMeter& meter, const std::string& job_id,
                                  uint64_t generation)
    : meter_(meter), job_(job_id, generation) {
  const absl::Duration now = meter_.clock_.Monotonic();
  absl::MutexLock lock(&meter_.mutex_);
  Replay& replay = meter_.replays_[job_];
  ++replay.partitions;
  if (replay.running++ == 0) replay.since = now;
}

ReplayMeter::Partition::~Partition() {
  const absl::Duration now = meter_.clock_.Monotonic();
  absl::MutexLock lock(&meter_.mutex_);
  Replay& replay = meter_.replays_[job_];
  if (--replay.running == 0) replay.time += now - replay.since;
}

void ReplayMeter::Partition::Add(uint64_t bytes) {
  absl::MutexLock lock(&meter_.mutex_);
  Replay& replay = meter_.replays_[job_];
  ++replay.records;
  replay.bytes += bytes;
}

void ReplayMeter::Forget(const std::string& job_id, uint64_t last) {
  absl::MutexLock lock(&mutex_);
  replays_.erase(replays_.lower_bound({job_id, 0}), replays_.upper_bound({job_id, last}));
}

std::vector<v1::ReplayStatus> ReplayMeter::Replays() const {
  const absl::Duration now = clock_.Monotonic();
  std::vector<v1::ReplayStatus> result;
  absl::MutexLock lock(&mutex_);
  for (const auto& [job, replay] : replays_) {
    v1::ReplayStatus& status = result.emplace_back();
    status.set_job_id(job.first);
    status.set_generation(job.second);
    status.set_partitions(replay.partitions);
    status.set_records(replay.records);
    status.set_bytes(replay.bytes);
    const absl::Duration running = replay.running > 0 ? now - replay.since : absl::ZeroDuration();
    status.set_seconds(absl::ToDoubleSeconds(replay.time + running));
  }
  return result;
}

}  // namespace muster

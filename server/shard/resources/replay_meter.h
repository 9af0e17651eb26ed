#ifndef MUSTER_SERVER_SHARD_RESOURCES_REPLAY_METER_H_
#define MUSTER_SERVER_SHARD_RESOURCES_REPLAY_METER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"

namespace muster {

namespace v1 {
class ReplayStatus;
}  // namespace v1

// Counts what partitions have replayed of their logs since the server started, by job and
// generation. A job's time runs while at least one of its partitions reads, checks or applies
// records. Thread-safe.
class ReplayMeter {
 public:
  // `clock` must outlive the meter.
  explicit ReplayMeter(const Clock& clock) : clock_(clock) {}

  // One partition's replay, from construction to destruction. The meter must outlive it.
  class Partition {
   public:
    Partition(ReplayMeter& meter, const std::string& job_id, uint64_t generation);
    ~Partition();
    Partition(const Partition&) = delete;
    Partition& operator=(const Partition&) = delete;

    // Counts a record that was applied.
    void Add(uint64_t bytes);

   private:
    ReplayMeter& meter_;
    const std::pair<std::string, uint64_t> job_;
  };

  // Returns all replays that are not forgotten, finished or under way, without server_id.
  std::vector<v1::ReplayStatus> Replays() const;

  // Forgets a job's generations up to `last`. REQUIRES: none of their partitions replays now.
  void Forget(const std::string& job_id, uint64_t last);

 private:
  struct Replay {
    uint32_t partitions = 0;
    uint64_t records = 0;
    uint64_t bytes = 0;
    // Partitions that replay now; `since` is the time at which the first of them began.
    int running = 0;
    absl::Duration since;
    // Time before `since`.
    absl::Duration time;
  };

  const Clock& clock_;
  mutable absl::Mutex mutex_;
  std::map<std::pair<std::string, uint64_t>, Replay> replays_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_RESOURCES_REPLAY_METER_H_

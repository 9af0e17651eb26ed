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

// What partitions have replayed of their logs since the server started, by job and generation, as
// long as their tables are there. Its time is that in which at least one of the job's partitions
// was at it: reading records, checking and applying them. Thread-safe.
class ReplayMeter {
 public:
  // `clock` must outlive it.
  explicit ReplayMeter(const Clock& clock) : clock_(clock) {}

  // One partition's replay, from its beginning to its end. The meter must outlive it.
  class Partition {
   public:
    Partition(ReplayMeter& meter, const std::string& job_id, uint64_t generation);
    ~Partition();
    Partition(const Partition&) = delete;
    Partition& operator=(const Partition&) = delete;

    // A record was applied.
    void Add(uint64_t bytes);

   private:
    ReplayMeter& meter_;
    const std::pair<std::string, uint64_t> job_;
  };

  // Of all jobs, as far as they have come; without server_id.
  std::vector<v1::ReplayStatus> Replays() const;

  // Forgets a job's generations up to `last`. REQUIRES: none of their partitions is at it.
  void Forget(const std::string& job_id, uint64_t last);

 private:
  struct Replay {
    uint32_t partitions = 0;
    uint64_t records = 0;
    uint64_t bytes = 0;
    // Under way now, and since when at least one has been.
    int running = 0;
    absl::Duration since;
    // Before that.
    absl::Duration time;
  };

  const Clock& clock_;
  mutable absl::Mutex mutex_;
  std::map<std::pair<std::string, uint64_t>, Replay> replays_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_RESOURCES_REPLAY_METER_H_

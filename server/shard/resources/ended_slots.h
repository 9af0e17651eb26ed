#ifndef MUSTER_SERVER_SHARD_RESOURCES_ENDED_SLOTS_H_
#define MUSTER_SERVER_SHARD_RESOURCES_ENDED_SLOTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace muster {

namespace v1 {
class HeartbeatReply;
}  // namespace v1

// The slots of jobs that will close no more clocks, since their programs have ended while others go
// on. The coordinator says so. Thread-safe.
class EndedSlots {
 public:
  // Takes the place of all that was known.
  void Set(const v1::HeartbeatReply& orders);

  // Returns the slots of a generation of a job, in order; most often none.
  std::vector<uint32_t> Of(const std::string& job_id, uint64_t generation) const;

 private:
  mutable absl::Mutex mutex_;
  std::map<std::pair<std::string, uint64_t>, std::vector<uint32_t>> slots_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_RESOURCES_ENDED_SLOTS_H_

#ifndef MUSTER_SERVER_COORDINATOR_SCHEDULING_PARTITION_LOADS_H_
#define MUSTER_SERVER_COORDINATOR_SCHEDULING_PARTITION_LOADS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "proto/cluster_service.pb.h"

namespace muster {

// Processor time that servers spent on partitions in the last half minute, from the sums in their
// heartbeats. Lost with the process, and told anew. Not thread-safe.
class PartitionLoads {
 public:
  static constexpr absl::Duration kWindow = absl::Seconds(30);
  // Job and partition.
  using Key = std::pair<std::string, uint32_t>;
  // Cores that each partition keeps busy: seconds of processor time per second.
  using Cores = std::map<Key, double>;

  // Takes a server's heartbeat. `now` is monotonic.
  void Take(const v1::HeartbeatRequest& request, absl::Duration now);

  // Forgets a server that is gone.
  void Forget(const std::string& server_id) { servers_.erase(server_id); }

  // Sets `cores` to the mean over the window for all partitions that the server holds. Returns
  // false if it has held one of them for less than the window, or has not been heard lately. A
  // server that tells of no partition keeps none busy.
  bool Measure(const std::string& server_id, absl::Duration now, Cores& cores) const;

 private:
  struct Sample {
    absl::Duration time;
    double busy_seconds = 0;
  };
  struct Partition {
    uint64_t generation = 0;
    // The oldest first: one from before the window, if there is one, and those within it.
    std::deque<Sample> samples;
  };
  struct Server {
    uint64_t incarnation = 0;
    absl::Duration heard;
    std::map<Key, Partition> partitions;
  };

  std::map<std::string, Server> servers_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_SCHEDULING_PARTITION_LOADS_H_

#ifndef MUSTER_WORKER_COLLECTIVES_TRANSPORT_MEETING_GROUP_FOR_TESTING_H_
#define MUSTER_WORKER_COLLECTIVES_TRANSPORT_MEETING_GROUP_FOR_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "worker/collectives/endpoint.h"
#include "worker/collectives/transport/meeting/meeting_point.h"
#include "worker/collectives/transport/transport.h"

namespace muster {

// How the ranks of a test reach each other.
enum class Wiring {
  kSharedMemory,
  kTcp,
  kTls,
  // With several data connections per pair.
  kTcp3,
  kTls2,
  // Even ranks share memory among themselves, the others use TCP.
  kMixed,
};
const char* Name(Wiring wiring);
HostEndpointOptions OptionsFor(Wiring wiring, int rank);

// Ranks as threads of this process, each with an endpoint of its own.
class GroupForTesting {
 public:
  GroupForTesting(Wiring wiring, int size);

  // Runs `body` once for each rank, each on its own thread, on a group that has just met.
  void Run(const std::function<void(Transport&)>& body);
  // The transports themselves, by rank.
  std::vector<absl::StatusOr<std::unique_ptr<HostTransport>>> Meet(
      absl::Duration timeout = absl::Seconds(20));

  // For a group of its own making.
  CollectiveEndpoint::Group group(int rank) const;
  MeetingPoint& point(int rank) { return *points_[rank]; }

 private:
  std::vector<std::unique_ptr<MeetingPoint>> points_;
  uint64_t round_ = 0;
};

// Calls each on a thread of its own and waits for all.
void InParallel(int count, const std::function<void(int)>& body);

// Writes, or reads, all of it, and waits as long as that takes; 30 s at most.
absl::Status WriteAll(Transport& transport, int peer, absl::Span<const std::byte> bytes);
absl::Status ReadAll(Transport& transport, int peer, absl::Span<std::byte> out);
// Both at once: as ranks do that send to each other more than a pipe holds.
absl::Status Exchange(Transport& transport, int to, absl::Span<const std::byte> bytes, int from,
                      absl::Span<std::byte> out);

// The next health() that is not OK, waiting for it 10 s at most.
absl::Status AwaitFailure(Transport& transport);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_TRANSPORT_MEETING_GROUP_FOR_TESTING_H_

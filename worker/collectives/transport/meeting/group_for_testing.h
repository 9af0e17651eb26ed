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

// The kind of connections between the ranks of a test.
enum class Wiring {
  kSharedMemory,
  kTcp,
  kTls,
  // TCP with several data connections per pair.
  kTcp3,
  kTls2,
  // Even ranks share memory among themselves, the others use TCP.
  kMixed,
};
const char* Name(Wiring wiring);
HostEndpointOptions OptionsFor(Wiring wiring, int rank);

// A group whose ranks are threads of this process, each with its own endpoint.
class GroupForTesting {
 public:
  GroupForTesting(Wiring wiring, int size);

  // Runs `body` once for each rank, each on its own thread, on a group that has just met.
  void Run(const std::function<void(Transport&)>& body);
  // Returns the transports by rank, once all have met.
  std::vector<absl::StatusOr<std::unique_ptr<HostTransport>>> Meet(
      absl::Duration timeout = absl::Seconds(20));

  // Returns the group as `rank` sees it, for a test that connects it itself.
  CollectiveEndpoint::Group group(int rank) const;
  MeetingPoint& point(int rank) { return *points_[rank]; }

 private:
  std::vector<std::unique_ptr<MeetingPoint>> points_;
  uint64_t round_ = 0;
};

// Calls body(0) to body(count - 1), each on a thread of its own, and waits for all.
void InParallel(int count, const std::function<void(int)>& body);

// Write or read all bytes, waiting at most 30 s.
absl::Status WriteAll(Transport& transport, int peer, absl::Span<const std::byte> bytes);
absl::Status ReadAll(Transport& transport, int peer, absl::Span<std::byte> out);
// Writes and reads at once, for ranks that send each other more than a pipe holds.
absl::Status Exchange(Transport& transport, int to, absl::Span<const std::byte> bytes, int from,
                      absl::Span<std::byte> out);

// Waits at most 10 s for a health() that is not OK, and returns the last one.
absl::Status AwaitFailure(Transport& transport);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_TRANSPORT_MEETING_GROUP_FOR_TESTING_H_

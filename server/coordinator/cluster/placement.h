#ifndef MUSTER_SERVER_COORDINATOR_CLUSTER_PLACEMENT_H_
#define MUSTER_SERVER_COORDINATOR_CLUSTER_PLACEMENT_H_

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace muster {

// Gang placement: a job gets all its slots and bytes on servers, or nothing. Pure functions.
//
// Slots go, one group after another, to the worker with the most free slots, so that jobs spread; a
// group for which no worker has enough is divided, one of expert ranks into its groups, if it can
// be. If slots must be apart, what is placed second goes to another worker than what is first.
// Slots of one worker are then made neighbours, since neighbours talk most (common/mesh/mesh.h);
// divided groups come last. Partitions are dealt round robin to the
// servers with the most free bytes, in order of id, so that servers differ by one partition at
// most. Each partition is taken to need equally many bytes.

// Stands for memory that a daemon, or a device, did not report, and that limits nothing.
inline constexpr uint64_t kUnlimitedBytes = std::numeric_limits<uint64_t>::max();

// A live worker and what it has free.
struct WorkerCapacity {
  std::string id;
  uint64_t incarnation = 0;
  uint32_t slots = 0;
  uint32_t free_slots = 0;
  uint32_t devices = 0;
  uint32_t free_devices = 0;
  // Bytes of its smallest device, so that a task fits whichever it gets; 0 without devices.
  uint64_t device_bytes = 0;
  bool multiplies_bf16 = false;
  bool allows_programs = false;
  // Threads of a task whose job names no number.
  uint32_t task_threads = 1;
  uint64_t bytes = kUnlimitedBytes;
  uint64_t free_bytes = kUnlimitedBytes;
};

// A server as Membership knows it, with the address of its tables.
struct ServerIdentity {
  std::string server_id;
  uint64_t incarnation = 0;
  std::string address;
  // Nonce of its process.
  uint64_t process_nonce = 0;
};

struct ServerCapacity {
  ServerIdentity identity;
  uint64_t bytes = kUnlimitedBytes;
  uint64_t free_bytes = kUnlimitedBytes;
};

// The live daemons, in order of id.
struct ClusterCapacity {
  std::vector<WorkerCapacity> workers;
  std::vector<ServerCapacity> servers;
};

// Amounts that one slot takes of its worker.
struct SlotDemand {
  uint64_t bytes = 0;
  uint32_t devices = 0;
  // Bytes of each of these devices.
  uint64_t device_bytes = 0;
  // The worker that is taken only where no other has room; empty: there is none.
  std::string avoided;
  // True if the worker must allow programs.
  bool program = false;
  // The workers that the job has left (JobRecord.left_workers); none of them is taken.
  std::set<std::string> left_workers;
};

struct Demand {
  uint32_t slots = 1;
  // Number of neighbouring slots that should be on one worker; divides `slots`.
  uint32_t group = 1;
  // Number of neighbouring slots, whole groups, that share out experts and are to be on one worker
  // where one has room for them; divides `slots`.
  uint32_t expert_group = 1;
  SlotDemand slot;
  // True if the slots must not all be on one worker, because ranks keep copies of one another's
  // shards (ZeroSpec.redundancy).
  bool apart = false;
  // Number of servers; 0: every live server, but not more than there are partitions.
  uint32_t servers = 0;
  // Number of partitions; 0: the job needs no servers.
  uint32_t partitions = 1;
  // Bytes over all partitions.
  uint64_t server_bytes = 0;
  // Servers that have yet to drop this job's earlier tables.
  absl::flat_hash_set<std::string> excluded_servers;
};

struct SlotWorker {
  std::string worker_id;
  uint64_t incarnation = 0;
};

struct ServerShare {
  ServerIdentity identity;
  uint64_t bytes = 0;
  std::vector<uint32_t> partitions;
};

struct Assignment {
  // Workers by slot.
  std::vector<SlotWorker> slots;
  // Servers in order of id.
  std::vector<ServerShare> servers;
};

// Places the demand and takes it out of `capacity`. RESOURCE_EXHAUSTED, with `capacity` unchanged:
// the demand does not fit now; the message says what there is and what is missing.
absl::StatusOr<Assignment> Place(const Demand& demand, ClusterCapacity& capacity);

// Places one slot of a job that keeps the rest: on one of the `preferred` workers if one of them
// has room. Takes it out of `capacity`. RESOURCE_EXHAUSTED as for Place.
absl::StatusOr<SlotWorker> PlaceSlot(const SlotDemand& slot,
                                     absl::Span<const std::string> preferred,
                                     ClusterCapacity& capacity);

// Checks that so many slots are free. RESOURCE_EXHAUSTED says what there is and what is missing.
absl::Status CheckSlots(uint32_t slots, const SlotDemand& slot, const ClusterCapacity& capacity);

// Checks that the demand fits when nothing else runs. A kind of daemon of which there is none yet
// is not held against the job: such a job waits. RESOURCE_EXHAUSTED says what is missing.
absl::Status FitsEmpty(const Demand& demand, ClusterCapacity capacity);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_CLUSTER_PLACEMENT_H_

#ifndef MUSTER_WORKER_RUNTIME_PROGRAM_PROGRAM_PLACE_H_
#define MUSTER_WORKER_RUNTIME_PROGRAM_PROGRAM_PLACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace muster {

namespace v1 {
class RendezvousReply;
class TaskOrder;
}  // namespace v1

// A process's place among the processes of its job.
struct ProgramPlace {
  uint32_t rank = 0;
  uint32_t world_size = 1;
  // Among the ranks of the same worker daemon.
  uint32_t local_rank = 0;
  uint32_t local_world_size = 1;
  // The worker daemon's number among those of the round, by their lowest ranks.
  uint32_t group_rank = 0;
  uint32_t group_world_size = 1;
  // The address at which rank 0 may listen; empty: the processes are not told of one another.
  std::string master_host;
  uint32_t master_port = 0;
  // Numbers of the devices of the daemon's ranks, by local rank, joined by commas.
  std::string devices;
};

// Returns the place of the order's slot in a round. Internal: the round has no such slot, or an
// endpoint that is no ProgramEndpoint.
absl::StatusOr<ProgramPlace> PlaceInRound(const v1::RendezvousReply& round,
                                          const v1::TaskOrder& order);

// Returns the place of the order's slot in an elastic job.
ProgramPlace PlaceAlone(const v1::TaskOrder& order);

// The files and secrets that a task offers its program beside its place.
struct ProgramSurroundings {
  // The task's control socket, and what requests there have to name.
  std::string socket;
  std::string token;
  std::string temporary_folder;
  std::string home;
};

// Returns the whole environment of the order's program, as NAME=value.
std::vector<std::string> ProgramEnvironment(const v1::TaskOrder& order, const ProgramPlace& place,
                                            const ProgramSurroundings& surroundings);

// Returns how often the order's process was started again.
uint64_t RestartsOf(const v1::TaskOrder& order);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_PROGRAM_PROGRAM_PLACE_H_

#ifndef MUSTER_CLIENT_CHAOS_SERVER_ROUNDS_H_
#define MUSTER_CLIENT_CHAOS_SERVER_ROUNDS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster {

// Record of a round in which nothing was lost.
struct ChaosOutcome {
  std::string what;
  int kills = 0;
  int link_faults = 0;
  // Number of times that a worker was stopped with its tasks, and continued.
  int freezes = 0;
  // Number of workers whose tasks were slowed; how many of these a job left.
  int slowed = 0;
  int left = 0;
  // Number of committed checkpoints that were compared with their state when they were committed.
  int checkpoints = 0;
  // Number of data folders that were deleted.
  int lost_volumes = 0;
  // Number of damaged files; how many of these were found, and how many were found and named.
  int damages = 0;
  int found = 0;
  int named = 0;
};

// Each runs a round on a muster-server process of its own, whose program is `server`, in `folder`.
// The folder must not exist yet; the caller removes it. An error says what was lost, or what else
// went wrong.
absl::StatusOr<ChaosOutcome> RunKilledServerRound(const std::string& server,
                                                  const std::string& folder, uint64_t seed,
                                                  int kills);
absl::StatusOr<ChaosOutcome> RunDamagedFileRound(const std::string& server,
                                                 const std::string& folder, uint64_t seed);

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_SERVER_ROUNDS_H_

#ifndef MUSTER_CLIENT_CHAOS_SERVER_ROUNDS_H_
#define MUSTER_CLIENT_CHAOS_SERVER_ROUNDS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster {

// What a round did, for its line, when nothing was lost.
struct ChaosOutcome {
  std::string what;
  int kills = 0;
  int link_faults = 0;
  // Committed checkpoints that were compared with what they were when they were committed.
  int checkpoints = 0;
  // Data folders that were taken away.
  int lost_volumes = 0;
  // Damage done to files; of it, what was found, and what was found with the file's name.
  int damages = 0;
  int found = 0;
  int named = 0;
};

// Rounds on a muster-server process of their own, whose program is `server`, in `folder`, which
// must not exist yet and is left for the caller to remove. An error says what was lost, or what
// else went wrong.
absl::StatusOr<ChaosOutcome> RunKilledServerRound(const std::string& server,
                                                  const std::string& folder, uint64_t seed,
                                                  int kills);
absl::StatusOr<ChaosOutcome> RunDamagedFileRound(const std::string& server,
                                                 const std::string& folder, uint64_t seed);

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_SERVER_ROUNDS_H_

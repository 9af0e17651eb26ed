#ifndef MUSTER_CLIENT_CHAOS_RUN_CHAOS_H_
#define MUSTER_CLIENT_CHAOS_RUN_CHAOS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "client/chaos/chaos_plan.h"
#include "client/chaos/server_rounds.h"

namespace muster {

struct ChaosOptions {
  int rounds = 20;
  uint64_t seed = 1;
  // Per round of killed servers or killed clusters.
  int kills = 3;
  // Gets a folder per round, and the cluster's; each goes when its round went well.
  std::string folder;
  // Called after each round.
  std::function<void(const ChaosRound& round, const absl::StatusOr<ChaosOutcome>& outcome)> ended =
      [](const ChaosRound&, const absl::StatusOr<ChaosOutcome>&) {};
};

struct ChaosSummary {
  int rounds = 0;
  int failed = 0;
  int kills = 0;
  int lost_volumes = 0;
  int damages = 0;
  int found = 0;
  int named = 0;

  // Such as "20 rounds, 41 kills, 4 lost volumes, 7 damaged files (5 found, 5 of them named; …):
  // nothing was lost".
  std::string Describe() const;
};

// Carries out the rounds one after another; a failed one does not end the run. NotFound: a program
// of Muster's is missing.
absl::StatusOr<ChaosSummary> RunChaos(const ChaosOptions& options);

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_RUN_CHAOS_H_

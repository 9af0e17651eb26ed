#ifndef MUSTER_CLIENT_CHAOS_RUN_CHAOS_H_
#define MUSTER_CLIENT_CHAOS_RUN_CHAOS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/chaos/faults/chaos_plan.h"
#include "client/chaos/server_rounds.h"

namespace muster {

struct ChaosOptions {
  int rounds = 20;
  uint64_t seed = 1;
  // Kinds of rounds, which take turns.
  std::vector<ChaosKind> kinds = AllChaosKinds();
  // Kills per round of killed servers or killed clusters.
  int kills = 3;
  // Link faults per round with link faults; freezes per round of frozen workers.
  int faults = 3;
  // Gets a folder per round and one for each cluster. A folder is removed when its round went well.
  std::string folder;
  // Called after each round.
  std::function<void(const ChaosRound& round, const absl::StatusOr<ChaosOutcome>& outcome)> ended =
      [](const ChaosRound&, const absl::StatusOr<ChaosOutcome>&) {};
};

struct ChaosSummary {
  struct Kind {
    int rounds = 0;
    // Numbers of the rounds that failed, in order.
    std::vector<int> failed;
  };
  // The kinds that had a round.
  std::map<ChaosKind, Kind> kinds;
  // Sum over the rounds that went well.
  ChaosOutcome sum;

  int rounds() const;
  int failed() const;
  // Returns a table of kinds, and a line such as "20 rounds, 41 kills, 4 lost volumes, 7 damaged
  // files (5 found, 5 of them named; …), 12 link faults, 6 frozen workers, 3 slow workers (3 left),
  // 310 checkpoints compared: nothing was lost".
  std::string Describe() const;
};

// Runs the rounds one after another; a round that fails does not end the run. NotFound: one of
// Muster's programs is missing.
absl::StatusOr<ChaosSummary> RunChaos(const ChaosOptions& options);

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_RUN_CHAOS_H_

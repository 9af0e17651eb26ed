#ifndef MUSTER_CLIENT_CHAOS_CHAOS_PLAN_H_
#define MUSTER_CLIENT_CHAOS_CHAOS_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

// What a round of `muster chaos` does to a system that works, and checks afterwards.
enum class ChaosKind {
  // A server is killed again and again while workers push integers to it under EVERY_PUSH. The sums
  // must come out exact.
  kKilledServer,
  // The same, and while the server is down, one of its files is damaged. It must say so, naming the
  // file, or not have needed what was damaged: the sums must come out exact once the files are
  // whole again.
  kDamagedFile,
  // Daemons and tasks of a cluster are killed while a deterministic job trains, whose checkpoints
  // are deltas for the most part. Its weights must be those of an undisturbed run, bit for bit.
  kKilledCluster,
  // A server of such a job under EVERY_PUSH is killed and its data folder goes. The job must say
  // that it went back to a checkpoint, and end with those weights.
  kLostVolume,
  // All servers of such a job under CHECKPOINT are killed, and a file of its newest checkpoint is
  // damaged. The job must say so, go back to the one before, and end with those weights.
  kDamagedCheckpoint,
};

struct ChaosRound {
  int number = 0;
  ChaosKind kind = ChaosKind::kKilledServer;
  // Of all that is random in the round.
  uint64_t seed = 0;
};

// Such as "killed server".
std::string ChaosName(ChaosKind kind);

// The rounds of a run, numbered from 1: a pure function, so that a run can be repeated. Kinds take
// turns, in an order that the seed gives.
std::vector<ChaosRound> PlanChaos(int rounds, uint64_t seed);

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_CHAOS_PLAN_H_

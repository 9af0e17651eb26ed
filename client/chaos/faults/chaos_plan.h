#ifndef MUSTER_CLIENT_CHAOS_FAULTS_CHAOS_PLAN_H_
#define MUSTER_CLIENT_CHAOS_FAULTS_CHAOS_PLAN_H_

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
  // The link between two processes of a cluster is cut, or loses all that goes in one direction, or
  // is slow, and whole again after a while, several times, while a deterministic job trains under
  // EVERY_PUSH, under CHECKPOINT or by all-reduce. All committed checkpoints must stay as they
  // were, and all weights be those of an undisturbed run, bit for bit.
  kCutLink,
  kHalfOpenLink,
  kSlowLink,
  // The same with any of these faults, and one of the link's two ends is killed as it begins.
  kLinksAndKills,
  // Under EVERY_PUSH a server is drained, then the other one, and so on, while the link between the
  // two has any of these faults, and now and then one of them is killed as it begins: partitions
  // are on their way meanwhile. Otherwise as above.
  kLinksAndMoves,
  // Under CHECKPOINT a server is killed and starts again at once, when its link to the coordinator
  // is down for less than its lease while tasks reach it: what it had is lost, and nobody has said
  // so. The job must go back to a committed checkpoint, and no committed file change.
  kCutLinkRewritesCheckpoints,
  // An all-reduce job in f16, with a checkpoint at every step, loses a task right after a commit,
  // again and again. The clock must not be cut over the files that were committed.
  kF16RewritesCheckpoint,
};

struct ChaosRound {
  int number = 0;
  ChaosKind kind = ChaosKind::kKilledServer;
  // Of all that is random in the round.
  uint64_t seed = 0;
};

// All of them, in the order above.
const std::vector<ChaosKind>& AllChaosKinds();
// Such as "killed-server".
std::string ChaosName(ChaosKind kind);

// The rounds of a run, numbered from 1: a pure function, so that a run can be repeated. Kinds, one
// or more, take turns, in an order that the seed gives.
std::vector<ChaosRound> PlanChaos(int rounds, uint64_t seed, std::vector<ChaosKind> kinds);

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_FAULTS_CHAOS_PLAN_H_

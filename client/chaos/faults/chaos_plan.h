#ifndef MUSTER_CLIENT_CHAOS_FAULTS_CHAOS_PLAN_H_
#define MUSTER_CLIENT_CHAOS_FAULTS_CHAOS_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

// Kinds of rounds of `muster chaos`: what each does to a running system and checks afterwards.
enum class ChaosKind {
  // Kills a server again and again while workers push integers to the server under EVERY_PUSH. The
  // sums must be exact.
  kKilledServer,
  // Like kKilledServer, and damages one of the server's files while the server is down. The server
  // must report the damage and name the file, or not need what was damaged: the sums must be exact
  // once the file is repaired.
  kDamagedFile,
  // Kills daemons and tasks of a cluster while a deterministic job trains, most of whose
  // checkpoints are deltas. The job's weights must be those of an undisturbed run, bit for bit.
  kKilledCluster,
  // Kills a server of such a job under EVERY_PUSH and deletes the server's data folder. The job
  // must report that it went back to a checkpoint, and end with those weights.
  kLostVolume,
  // Kills all servers of such a job under CHECKPOINT, and damages a file of the newest checkpoint.
  // The job must report the damage, go back to the checkpoint before, and end with those weights.
  kDamagedCheckpoint,
  // Several times cuts the link between two processes of a cluster, or loses everything in one
  // direction, or makes the link slow, each time for a while. Meanwhile a deterministic job trains
  // under EVERY_PUSH, under CHECKPOINT or by all-reduce. All committed checkpoints must stay as
  // they were, and all weights must be those of an undisturbed run, bit for bit.
  kCutLink,
  kHalfOpenLink,
  kSlowLink,
  // Like kCutLink with any of these faults; when a fault begins, one of the link's two ends is
  // killed.
  kLinksAndKills,
  // Under EVERY_PUSH drains one server, then the other one, and so on, so that partitions move,
  // while the link between the two has any of these faults. Now and then one of the two is killed
  // when a fault begins. Checks the same as kCutLink.
  kLinksAndMoves,
  // Under CHECKPOINT kills a server, which restarts at once while its link to the coordinator is
  // down for less than its lease but tasks reach it: the server's state is lost, and nobody has
  // reported it. The job must go back to a committed checkpoint, and no committed file may change.
  kCutLinkRewritesCheckpoints,
  // An all-reduce job in f16, with a checkpoint at every step, loses a task right after a commit,
  // again and again. A repeated cut of that clock must not overwrite the committed files.
  kF16RewritesCheckpoint,
  // Several times stops a worker with its tasks for longer than its lease, then continues the
  // tasks, and their daemon a little later. Meanwhile a spare worker takes the slot, and a
  // deterministic job trains on servers or by all-reduce, plain or under ZeRO. Checks the same as
  // kCutLink.
  kFrozenWorker,
  // Gives workers notice (SIGTERM) and kills them, again and again; each joins again soon.
  // Meanwhile
  // a job trains on servers or by all-reduce, whose weights must be those of an undisturbed run,
  // bit
  // for bit; or a job by all-reduce that grows and shrinks with the workers, whose weights must be
  // those but for rounding.
  kComingWorkers,
  // Makes the tasks of a worker compute at a fraction of their speed. A spare worker is there, and
  // a deterministic job with replace_slow, on servers or by all-reduce, plain or under ZeRO, is to
  // leave the slow one. Checks the same as kCutLink.
  kSlowWorker,
};

struct ChaosRound {
  int number = 0;
  ChaosKind kind = ChaosKind::kKilledServer;
  // Seed of all random choices of the round.
  uint64_t seed = 0;
};

// Returns all kinds, in the order above.
const std::vector<ChaosKind>& AllChaosKinds();
// Returns a name such as "killed-server".
std::string ChaosName(ChaosKind kind);

// Returns the rounds of a run, numbered from 1: a pure function, so that a run can be repeated. The
// given kinds, one or more, take turns in an order that depends on the seed.
std::vector<ChaosRound> PlanChaos(int rounds, uint64_t seed, std::vector<ChaosKind> kinds);

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_FAULTS_CHAOS_PLAN_H_

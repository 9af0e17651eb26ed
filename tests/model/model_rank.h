#ifndef MUSTER_TESTS_MODEL_MODEL_RANK_H_
#define MUSTER_TESTS_MODEL_MODEL_RANK_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/cluster_service.pb.h"
#include "proto/task_service.pb.h"
#include "server/coordinator/simulation/simulated_cluster.h"
#include "tests/model/model_cluster.h"
#include "worker/strategy/shard_state.h"

namespace muster {

// What the ranks of a round have given to each of its calls, by rank. A message that is lost, or a
// rank that goes, breaks it for all.
struct ModelGroup {
  std::vector<std::map<int, std::string>> calls;
  bool broken = false;
};

// A task that trains by all-reduce, with a replica as real tasks have it, which writes the files of
// its cuts: meets, takes the source's replica over, trains and takes cuts with the others, and
// meets again when its group breaks. Its files tell which process wrote them, so that a cut that is
// taken again by others shows.
class ModelRank final : public ModelTask {
 public:
  ModelRank(ModelCluster& cluster, std::string worker, v1::TaskOrder order);
  // As a process that is gone.
  ~ModelRank() override;

  bool Advance() override;

 private:
  enum class State { kMeet, kJoin, kTrain, kWrite, kCommit, kEndCut, kEnded };
  enum class Came { kNotYet, kAll, kBroken };

  bool Meet();
  bool Join();
  bool Train();
  // Writes this rank's files of the cut.
  void BeginCut();
  bool Write();
  bool Commit();
  bool EndCut();

  // The group's next call, to which this rank gives `mine`. kAll: gave_ has what all gave.
  Came Call(const std::string& mine);
  // Leaves the round if nothing will come any more; whether that was so.
  bool LeaveIf(Came came);
  void Leave();
  void Enter(const v1::RendezvousReply& round);
  absl::Status Restore();
  absl::Status WriteOwnFiles();
  void DeleteWritten();
  // From a replica that all ranks have.
  void GoOn();
  void End(const absl::Status& status);
  bool naive() const { return cluster_.options().tasks == ModelCluster::Options::Tasks::kNaive; }

  ModelCluster& cluster_;
  const std::string worker_;
  const v1::TaskOrder order_;
  const std::unique_ptr<ShardState> replica_;
  bool has_replica_ = false;
  // Steps of this process, which its files have in the place of a loss scale.
  uint32_t own_steps_ = 0;
  State state_ = State::kMeet;
  std::optional<Answer<v1::RendezvousReply>> meeting_;

  // Of the round.
  uint64_t round_ = 0;
  std::shared_ptr<ModelGroup> group_;
  int rank_ = 0;
  int size_ = 0;
  std::optional<int> source_;
  uint64_t checkpoint_clock_ = 0;
  // Which call is next, and since when.
  size_t call_ = 0;
  absl::Duration since_;
  std::map<int, std::string> gave_;

  // Of the cut.
  bool cut_done_ = false;
  v1::CommitCheckpointRequest written_;
  v1::CommitCheckpointRequest commit_;
  std::optional<Answer<v1::CommitCheckpointReply>> committing_;
  bool given_up_ = false;
};

}  // namespace muster

#endif  // MUSTER_TESTS_MODEL_MODEL_RANK_H_

#ifndef MUSTER_TESTS_MODEL_MODEL_SERVER_TASK_H_
#define MUSTER_TESTS_MODEL_MODEL_SERVER_TASK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/payload.h"
#include "common/rpc/parameter_service/parameter_client.h"
#include "proto/cluster_service.pb.h"
#include "proto/parameter_service.pb.h"
#include "proto/status.pb.h"
#include "proto/task_service.pb.h"
#include "tests/model/model_cluster.h"
#include "worker/strategy/servers/shard_connections.h"

namespace muster {

// A task that trains on servers: meets, opens the tables by the connections that real tasks have,
// and trains; whatever is not answered it repeats, as the router of real tasks does.
class ModelServerTask final : public ModelTask {
 public:
  ModelServerTask(ModelCluster& cluster, std::string worker, v1::TaskOrder order);

  bool Advance() override;

 private:
  enum class State { kMeet, kConnect, kCut, kCommit, kPull, kPush, kEnded };
  // An operation on one partition, and what was answered.
  struct Operation {
    v1::ExchangeRequest request;
    Payload payload;
    std::shared_ptr<std::optional<absl::StatusOr<ExchangeResult>>> answer =
        std::make_shared<std::optional<absl::StatusOr<ExchangeResult>>>();
    uint64_t connection = 0;
  };

  bool Meet();
  bool Connect();
  bool Commit();
  // Starts what the state asks for of every partition, and waits for the answers.
  bool Exchange();
  void StartOperations();
  v1::ExchangeRequest Request(uint32_t partition) const;
  // All were answered well.
  void Finished();
  void StepClosed();
  // Ends as a real task does with this error, unless it passes.
  void Judge(const absl::Status& status);
  void End(const absl::Status& status);
  bool CutIsDue() const;

  ModelCluster& cluster_;
  const std::string worker_;
  const v1::TaskOrder order_;
  ShardConnections connections_;
  State state_ = State::kMeet;
  // Where it goes on once it is connected again.
  State resume_ = State::kConnect;
  bool first_map_ = true;
  bool opened_ = false;
  // Of the last checkpoint that there was when the tasks met: it is not taken again.
  uint64_t checkpoint_clock_ = 0;
  // Closed everywhere, and acknowledged.
  uint64_t clock_ = 0;
  bool cut_done_ = false;
  std::vector<Operation> operations_;
  std::vector<float> weights_;
  v1::CommitCheckpointRequest commit_;
  std::optional<Answer<v1::RendezvousReply>> meeting_;
  std::optional<Answer<v1::CommitCheckpointReply>> committing_;
};

}  // namespace muster

#endif  // MUSTER_TESTS_MODEL_MODEL_SERVER_TASK_H_

#include "worker/runtime/task.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/kernels/matmul.h"
#include "common/partition/schema.h"
#include "proto/cluster_service.pb.h"
#include "proto/schema.pb.h"
#include "proto/task_service.pb.h"
#include "worker/runtime/prepared_job.h"
#include "worker/runtime/trainer.h"

namespace muster {
namespace {

absl::Status CheckRoads(const v1::UpdateSpec& update) {
  for (auto [field, road] :
       {std::pair<absl::string_view, int>{"dense", update.dense()}, {"sparse", update.sparse()}}) {
    if (road == v1::UpdateSpec::ALL_REDUCE) {
      return absl::UnimplementedError(absl::StrCat(
          "update.", field, " is ALL_REDUCE; this release trains through PARAMETER_SERVER"));
    }
  }
  return absl::OkStatus();
}

absl::Status MeetOthers(const PreparedJob& job, CoordinatorClient& coordinator) {
  v1::RendezvousRequest request;
  request.set_data_fingerprint(job.dataset->fingerprint());
  request.set_training_examples(job.split.training);
  request.set_held_out_examples(job.split.held_out);
  request.set_total_steps(job.total_steps);
  request.set_schema_fingerprint(SchemaFingerprint(*job.schema));
  return coordinator.Rendezvous(std::move(request));
}

}  // namespace

absl::Status RunTask(const v1::TaskOrder& order, const TaskDependencies& dependencies) {
  MUSTER_RETURN_IF_ERROR(CheckRoads(order.spec().update()));
  SetComputeThreads(std::max<int>(1, order.spec().threads_per_worker()));
  MUSTER_ASSIGN_OR_RETURN(const PreparedJob job, PrepareJob(order.spec()));
  dependencies.log(absl::StrCat("slot ", order.slot(), ": ", job.split.training,
                                " examples to train on, ", job.split.held_out, " held out, ",
                                job.total_steps, " steps"));
  MUSTER_RETURN_IF_ERROR(MeetOthers(job, *dependencies.coordinator));

  ShardRouterDependencies routing;
  routing.make_client = dependencies.make_client;
  routing.newest_shard_map = [coordinator = dependencies.coordinator] {
    return coordinator->GetShardMap(0, absl::ZeroDuration());
  };
  routing.log = dependencies.log;
  routing.clock = dependencies.clock;
  routing.waiter = dependencies.waiter;
  MUSTER_ASSIGN_OR_RETURN(
      std::unique_ptr<ParameterServerStrategy> strategy,
      ParameterServerStrategy::Create(order, *job.schema, ParameterServerStrategy::Options(),
                                      std::move(routing)));
  TrainerOptions options;
  options.slot = order.slot();
  // Weights of another job are not a checkpoint of this one.
  if (!order.restore_uri().empty() && !order.restore_weights_only()) {
    options.restored_clock = order.start_clock();
  }
  options.log = dependencies.log;
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<Trainer> trainer,
                          Trainer::Create(order.spec(), options, job, *strategy,
                                          *dependencies.coordinator, *dependencies.clock));
  return trainer->Run();
}

}  // namespace muster

#include "worker/runtime/task/task_parts.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/status_macros.h"
#include "common/mesh/mesh.h"
#include "common/partition/schema.h"
#include "common/text/utf8.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"
#include "proto/task_service.pb.h"

namespace muster {
namespace {

// Most bytes of what a task waits for, as the job's status shows it.
constexpr size_t kMostWaitBytes = 1000;
// Time between reports while no step ends, so that a stuck task can still be asked for something.
constexpr absl::Duration kPoll = absl::Seconds(1);

}  // namespace

v1::RendezvousRequest MeetingRequest(const PreparedJob& job) {
  v1::RendezvousRequest request;
  request.set_data_fingerprint(job.data_fingerprint());
  request.set_training_examples(job.split.training);
  request.set_held_out_examples(job.evaluated.held_out);
  request.set_total_steps(job.total_steps);
  request.set_schema_fingerprint(SchemaFingerprint(*job.schema));
  return request;
}

void TellWait(CoordinatorClient& coordinator, absl::string_view text) {
  v1::ReportProgressRequest request;
  request.set_waits_for(std::string(CutUtf8(ToUtf8(text), kMostWaitBytes)));
  // The report is only for people, and the log has the text, too.
  coordinator.ReportProgress(std::move(request)).IgnoreError();
}

ShardRouterDependencies RoutingOf(const TaskDependencies& dependencies) {
  ShardRouterDependencies routing;
  routing.make_client = dependencies.make_client;
  routing.newest_shard_map = [coordinator = dependencies.coordinator] {
    return coordinator->GetShardMap(0, absl::ZeroDuration());
  };
  routing.log = dependencies.log;
  routing.tell_wait = [coordinator = dependencies.coordinator](absl::string_view text) {
    TellWait(*coordinator, text);
  };
  routing.clock = dependencies.clock;
  routing.waiter = dependencies.waiter;
  return routing;
}

absl::Duration StallTimeoutOf(const v1::TaskOrder& order) {
  return order.stall_timeout_ms() > 0 ? absl::Milliseconds(order.stall_timeout_ms())
                                      : absl::Minutes(10);
}

absl::StatusOr<TrainerOptions> TrainerOptionsFor(const v1::TaskOrder& order,
                                                 const v1::RendezvousReply& meeting,
                                                 const RankInWorld& place,
                                                 const TaskDependencies& dependencies) {
  TrainerOptions options;
  options.slot = order.slot();
  MUSTER_ASSIGN_OR_RETURN(options.mesh,
                          Mesh::FromSpec(order.spec().parallelism(), place.world_size));
  options.rank = place.rank;
  // Weights of another job are not a checkpoint of this one.
  if (!order.restore_uri().empty() && !order.restore_weights_only()) {
    options.checkpoint_clock = order.start_clock();
  }
  if (meeting.has_checkpoint_clock()) {
    options.checkpoint_clock =
        std::max<uint64_t>(options.checkpoint_clock.value_or(0), meeting.checkpoint_clock());
  }
  options.adjustments = Adjustments(meeting.adjustments());
  options.reporting.poll = kPoll;
  options.reporting.traced = dependencies.traced;
  options.log = dependencies.log;
  options.wait = [waiter = dependencies.waiter](absl::Duration duration) {
    return waiter->Wait(duration);
  };
  return options;
}

}  // namespace muster

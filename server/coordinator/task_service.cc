#include "server/coordinator/task_service.h"

#include <utility>

#include "proto/task_service.grpc.pb.h"
#include "server/coordinator/rpc_edge.h"

namespace muster {
namespace {

class TaskService final : public EdgeService<v1::TaskService> {
 public:
  explicit TaskService(CoordinatorLoop& loop) : EdgeService(loop) {
    ParkReport<v1::RendezvousRequest, v1::RendezvousReply>(
        "Rendezvous", [](Coordinator& c, const auto& request, auto call) {
          c.tasks().Rendezvous(request, std::move(call));
        });
    Report<v1::ReportProgressRequest, v1::ReportProgressReply>(
        "ReportProgress",
        [](Coordinator& c, const auto& request) { return c.tasks().ReportProgress(request); });
    ParkReport<v1::ReportEvaluationRequest, v1::ReportEvaluationReply>(
        "ReportEvaluation", [](Coordinator& c, const auto& request, auto call) {
          c.tasks().ReportEvaluation(request, std::move(call));
        });
    ParkReport<v1::AdjustRequest, v1::AdjustReply>(
        "Adjust", [](Coordinator& c, const auto& request, auto call) {
          c.tasks().Adjust(request, std::move(call));
        });
    ParkReport<v1::VerifyStepRequest, v1::VerifyStepReply>(
        "VerifyStep", [](Coordinator& c, const auto& request, auto call) {
          c.tasks().VerifyStep(request, std::move(call));
        });
    Park<v1::CommitCheckpointRequest, v1::CommitCheckpointReply>(
        "CommitCheckpoint", [](Coordinator& c, const auto& request, auto call) {
          c.tasks().CommitCheckpoint(request, std::move(call));
        });
    AtOnce<v1::ReportCollectivesRequest, v1::ReportCollectivesReply>(
        "ReportCollectives",
        [](Coordinator& c, const auto& request) { return c.tasks().ReportCollectives(request); });
    AtOnce<v1::ReportTraceRequest, v1::TraceReply>(
        "ReportTrace",
        [](Coordinator& c, const auto& request) { return c.tasks().ReportTrace(request); });
    Park<v1::GetShardMapRequest, v1::ShardMap>("GetShardMap",
                                               [](Coordinator& c, const auto& request, auto call) {
                                                 c.tasks().GetShardMap(request, std::move(call));
                                               });
  }
};

}  // namespace

std::unique_ptr<grpc::Service> MakeTaskService(CoordinatorLoop& loop) {
  return std::make_unique<TaskService>(loop);
}

}  // namespace muster

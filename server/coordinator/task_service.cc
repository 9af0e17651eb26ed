#include "server/coordinator/task_service.h"

#include "proto/task_service.grpc.pb.h"
#include "server/coordinator/parked_reactor.h"

namespace muster {
namespace {

using Context = grpc::CallbackServerContext;
using Reactor = grpc::ServerUnaryReactor;

class TaskService final : public v1::TaskService::CallbackService {
 public:
  explicit TaskService(CoordinatorLoop& loop) : loop_(loop) {}

 private:
  Reactor* Rendezvous(Context*, const v1::RendezvousRequest* request,
                      v1::RendezvousReply* reply) override {
    return RunParked<v1::RendezvousReply>(
        loop_, reply, [request](Coordinator& c, Call<v1::RendezvousReply> call) {
          c.tasks().Rendezvous(*request, std::move(call));
        });
  }

  Reactor* ReportProgress(Context*, const v1::ReportProgressRequest* request,
                          v1::ReportProgressReply* reply) override {
    return RunAtOnce<v1::ReportProgressReply>(
        loop_, reply, [request](Coordinator& c) { return c.tasks().ReportProgress(*request); });
  }

  Reactor* ReportEvaluation(Context*, const v1::ReportEvaluationRequest* request,
                            v1::ReportEvaluationReply* reply) override {
    return RunParked<v1::ReportEvaluationReply>(
        loop_, reply, [request](Coordinator& c, Call<v1::ReportEvaluationReply> call) {
          c.tasks().ReportEvaluation(*request, std::move(call));
        });
  }

  Reactor* CommitCheckpoint(Context*, const v1::CommitCheckpointRequest* request,
                            v1::CommitCheckpointReply* reply) override {
    return RunParked<v1::CommitCheckpointReply>(
        loop_, reply, [request](Coordinator& c, Call<v1::CommitCheckpointReply> call) {
          c.tasks().CommitCheckpoint(*request, std::move(call));
        });
  }

  Reactor* ReportCollectives(Context*, const v1::ReportCollectivesRequest* request,
                             v1::ReportCollectivesReply* reply) override {
    return RunAtOnce<v1::ReportCollectivesReply>(
        loop_, reply, [request](Coordinator& c) { return c.tasks().ReportCollectives(*request); });
  }

  Reactor* GetShardMap(Context*, const v1::GetShardMapRequest* request,
                       v1::ShardMap* reply) override {
    return RunParked<v1::ShardMap>(loop_, reply,
                                   [request](Coordinator& c, Call<v1::ShardMap> call) {
                                     c.tasks().GetShardMap(*request, std::move(call));
                                   });
  }

  CoordinatorLoop& loop_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeTaskService(CoordinatorLoop& loop) {
  return std::make_unique<TaskService>(loop);
}

}  // namespace muster

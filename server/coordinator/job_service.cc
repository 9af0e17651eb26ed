#include "server/coordinator/job_service.h"

#include "proto/job_service.grpc.pb.h"
#include "server/coordinator/job_streams.h"
#include "server/coordinator/parked_reactor.h"

namespace muster {
namespace {

using Context = grpc::CallbackServerContext;
using Reactor = grpc::ServerUnaryReactor;

class JobService final : public v1::JobService::CallbackService {
 public:
  explicit JobService(CoordinatorLoop& loop) : loop_(loop) {}

 private:
  Reactor* SubmitJob(Context*, const v1::SubmitJobRequest* request,
                     v1::SubmitJobReply* reply) override {
    return RunAtOnce<v1::SubmitJobReply>(
        loop_, reply, [request](Coordinator& c) { return c.jobs().Submit(*request); });
  }

  Reactor* GetJob(Context*, const v1::GetJobRequest* request, v1::JobStatus* reply) override {
    return RunAtOnce<v1::JobStatus>(
        loop_, reply, [request](Coordinator& c) { return c.jobs().Get(request->job_id()); });
  }

  Reactor* ListJobs(Context*, const v1::ListJobsRequest*, v1::ListJobsReply* reply) override {
    return RunAtOnce<v1::ListJobsReply>(loop_, reply,
                                        [](Coordinator& c) { return c.jobs().List(); });
  }

  grpc::ServerWriteReactor<v1::JobStatus>* WatchJob(Context*,
                                                    const v1::GetJobRequest* request) override {
    return StartWatch(loop_, request->job_id());
  }

  grpc::ServerWriteReactor<v1::LogChunk>* ReadLogs(Context*,
                                                   const v1::ReadLogsRequest* request) override {
    return StartLogs(loop_, *request);
  }

  Reactor* ListEvents(Context*, const v1::GetJobRequest* request,
                      v1::ListEventsReply* reply) override {
    return RunAtOnce<v1::ListEventsReply>(
        loop_, reply, [request](Coordinator& c) { return c.jobs().Events(request->job_id()); });
  }

  Reactor* ListCollectives(Context*, const v1::GetJobRequest* request,
                           v1::ListCollectivesReply* reply) override {
    return RunParked<v1::ListCollectivesReply>(
        loop_, reply, [request](Coordinator& c, Call<v1::ListCollectivesReply> call) {
          c.jobs().ListCollectives(request->job_id(), std::move(call));
        });
  }

  Reactor* CancelJob(Context*, const v1::CancelJobRequest* request, v1::JobStatus* reply) override {
    return RunAtOnce<v1::JobStatus>(
        loop_, reply, [request](Coordinator& c) { return c.jobs().Cancel(*request); });
  }

  Reactor* DeleteJob(Context*, const v1::GetJobRequest* request,
                     v1::DeleteJobReply* reply) override {
    return RunParked<v1::DeleteJobReply>(loop_, reply,
                                         [request](Coordinator& c, Call<v1::DeleteJobReply> call) {
                                           c.jobs().Delete(request->job_id(), std::move(call));
                                         });
  }

  grpc::ServerWriteReactor<v1::ExportChunk>* ExportJob(
      Context* context, const v1::CheckpointRequest* request) override {
    return StartExport(loop_, *request, context);
  }

  Reactor* ListCheckpoints(Context*, const v1::GetJobRequest* request,
                           v1::ListCheckpointsReply* reply) override {
    return RunParked<v1::ListCheckpointsReply>(
        loop_, reply, [request](Coordinator& c, Call<v1::ListCheckpointsReply> call) {
          c.checkpoints().List(request->job_id(), std::move(call));
        });
  }

  Reactor* VerifyCheckpoint(Context*, const v1::CheckpointRequest* request,
                            v1::VerifyCheckpointReply* reply) override {
    return RunParked<v1::VerifyCheckpointReply>(
        loop_, reply,
        [this, job = request->job_id(), request](Coordinator& c,
                                                 Call<v1::VerifyCheckpointReply> call) {
          const absl::StatusOr<std::string> folder = c.checkpoints().Folder(*request);
          if (!folder.ok()) return call.done(folder.status());
          loop_.PostExport([this, job, folder = *folder, call](const CheckpointKeeper& keeper) {
            absl::StatusOr<v1::VerifyCheckpointReply> found = keeper.Verify(folder);
            loop_.Post([job, folder, found = std::move(found), call](Coordinator& c) {
              call.done(c.checkpoints().Verified(job, folder, found));
            });
          });
        });
  }

  Reactor* DeleteCheckpoint(Context*, const v1::DeleteCheckpointRequest* request,
                            v1::DeleteCheckpointReply* reply) override {
    return RunParked<v1::DeleteCheckpointReply>(
        loop_, reply, [request](Coordinator& c, Call<v1::DeleteCheckpointReply> call) {
          c.checkpoints().Delete(*request, std::move(call));
        });
  }

  Reactor* GetCluster(Context*, const v1::GetClusterRequest*, v1::GetClusterReply* reply) override {
    return RunAtOnce<v1::GetClusterReply>(loop_, reply, [](Coordinator& c) {
      v1::GetClusterReply cluster = c.jobs().Cluster();
      for (v1::DrainStatus& drain : c.moves().Drains()) *cluster.add_drains() = std::move(drain);
      return cluster;
    });
  }

  Reactor* DrainServer(Context*, const v1::DrainServerRequest* request,
                       v1::DrainServerReply* reply) override {
    return RunAtOnce<v1::DrainServerReply>(
        loop_, reply, [request](Coordinator& c) { return c.moves().Drain(*request); });
  }

  Reactor* RebalanceJob(Context*, const v1::GetJobRequest* request, v1::JobStatus* reply) override {
    return RunAtOnce<v1::JobStatus>(
        loop_, reply, [request](Coordinator& c) -> absl::StatusOr<v1::JobStatus> {
          if (absl::Status status = c.moves().Rebalance(request->job_id()); !status.ok()) {
            return status;
          }
          return c.jobs().Get(request->job_id());
        });
  }

  Reactor* GetMetrics(Context*, const v1::GetMetricsRequest*, v1::GetMetricsReply* reply) override {
    return RunAtOnce<v1::GetMetricsReply>(loop_, reply,
                                          [](Coordinator& c) { return c.jobs().Metrics(); });
  }

  CoordinatorLoop& loop_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeJobService(CoordinatorLoop& loop) {
  return std::make_unique<JobService>(loop);
}

}  // namespace muster

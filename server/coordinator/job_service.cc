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

  grpc::ServerWriteReactor<v1::ExportChunk>* ExportJob(Context* context,
                                                       const v1::GetJobRequest* request) override {
    return StartExport(loop_, request->job_id(), context);
  }

  Reactor* GetCluster(Context*, const v1::GetClusterRequest*, v1::GetClusterReply* reply) override {
    return RunAtOnce<v1::GetClusterReply>(loop_, reply,
                                          [](Coordinator& c) { return c.jobs().Cluster(); });
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

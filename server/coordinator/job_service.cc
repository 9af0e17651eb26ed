#include "server/coordinator/job_service.h"

#include <string>
#include <utility>

#include "proto/job_service.grpc.pb.h"
#include "server/coordinator/job_streams.h"
#include "server/coordinator/rpc_edge.h"

namespace muster {
namespace {

class JobService final : public EdgeService<v1::JobService> {
 public:
  explicit JobService(CoordinatorLoop& loop) : EdgeService(loop) {
    Park<v1::SubmitJobRequest, v1::SubmitJobReply>(
        "SubmitJob", [](Coordinator& c, const auto& request, auto call) {
          c.submits().Submit(request, std::move(call));
        });
    ParkRead<v1::ShippedFolder, v1::FindShippedFolderReply>(
        "FindShippedFolder", [](Coordinator& c, const auto& folder, auto call) {
          c.shipped().Find(folder, std::move(call));
        });
    Upload("ShipFolder", StartShipFolder);
    Read<v1::GetJobRequest, v1::JobStatus>("GetJob", [](Coordinator& c, const auto& request) {
      return c.jobs().Get(request.job_id());
    });
    Read<v1::ListJobsRequest, v1::ListJobsReply>(
        "ListJobs", [](Coordinator& c, const auto& request) { return c.jobs().List(request); });
    Read<v1::GetJobRequest, v1::ListEventsReply>(
        "ListEvents",
        [](Coordinator& c, const auto& request) { return c.jobs().Events(request.job_id()); });
    ParkRead<v1::GetJobRequest, v1::ListCollectivesReply>(
        "ListCollectives", [](Coordinator& c, const auto& request, auto call) {
          c.jobs().ListCollectives(request.job_id(), std::move(call));
        });
    AtOnce<v1::CancelJobRequest, v1::JobStatus>(
        "CancelJob", [](Coordinator& c, const auto& request) { return c.jobs().Cancel(request); });
    Park<v1::GetJobRequest, v1::DeleteJobReply>(
        "DeleteJob", [](Coordinator& c, const auto& request, auto call) {
          c.jobs().Delete(request.job_id(), std::move(call));
        });
    AtOnce<v1::DescribeJobRequest, v1::JobStatus>(
        "DescribeJob",
        [](Coordinator& c, const auto& request) { return c.jobs().Describe(request); });
    Stream<v1::GetJobRequest>("WatchJob", StartWatch);
    Stream<v1::ReadLogsRequest>("ReadLogs", StartLogs);
    Stream<v1::ReadMetricsRequest>("ReadMetrics", StartMetrics);
    Stream<v1::TraceJobRequest>("TraceJob", StartTrace);
    ServeCheckpoints();
    ServeCluster();
  }

 private:
  void ServeCheckpoints() {
    Stream<v1::CheckpointRequest>("ExportJob", StartExport);
    ParkRead<v1::GetJobRequest, v1::ListCheckpointsReply>(
        "ListCheckpoints", [](Coordinator& c, const auto& request, auto call) {
          c.checkpoints().List(request.job_id(), std::move(call));
        });
    ParkRead<v1::CheckpointRequest, v1::VerifyCheckpointReply>(
        "VerifyCheckpoint", [this](Coordinator& c, const auto& request, auto call) {
          const absl::StatusOr<std::string> folder = c.checkpoints().Folder(request);
          if (!folder.ok()) return call.done(folder.status());
          Verify(request.job_id(), *folder, std::move(call));
        });
    Park<v1::DeleteCheckpointRequest, v1::DeleteCheckpointReply>(
        "DeleteCheckpoint", [](Coordinator& c, const auto& request, auto call) {
          c.checkpoints().Delete(request, std::move(call));
        });
  }

  void ServeCluster() {
    Read<v1::GetClusterRequest, v1::GetClusterReply>(
        "GetCluster", [](Coordinator& c, const auto&) { return c.Cluster(); });
    AtOnce<v1::DrainServerRequest, v1::DrainServerReply>(
        "DrainServer",
        [](Coordinator& c, const auto& request) { return c.moves().Drain(request); });
    AtOnce<v1::GetJobRequest, v1::JobStatus>(
        "RebalanceJob", [](Coordinator& c, const auto& request) -> absl::StatusOr<v1::JobStatus> {
          if (absl::Status status = c.moves().Rebalance(request.job_id()); !status.ok()) {
            return status;
          }
          return c.jobs().Get(request.job_id());
        });
    Read<v1::GetMetricsRequest, v1::GetMetricsReply>(
        "GetMetrics", [](Coordinator& c, const auto&) { return c.jobs().Metrics(); });
  }

  void Verify(const std::string& job, const std::string& folder,
              Call<v1::VerifyCheckpointReply> call) {
    loop_.PostExport([this, job, folder, call = std::move(call)](const CheckpointArchive& archive) {
      absl::StatusOr<v1::VerifyCheckpointReply> found =
          CatchOutOfMemory("the call", [&] { return archive.Verify(folder); });
      loop_.PostRead([job, folder, found = std::move(found), call](Coordinator& c) {
        call.done(c.checkpoints().Verified(job, folder, found));
      });
    });
  }
};

}  // namespace

std::unique_ptr<grpc::Service> MakeJobService(CoordinatorLoop& loop) {
  return std::make_unique<JobService>(loop);
}

}  // namespace muster

#include "client/compare/measured_run.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "client/compare/process_usage.h"
#include "client/job_client.h"
#include "client/local_cluster.h"
#include "client/progress.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/local_storage.h"
#include "common/checkpoint/manifest.h"
#include "common/partition/wire_dtype.h"
#include "common/rpc/rpc_credentials.h"
#include "common/tensor/dtype.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

// Sums over the tasks of a job.
struct Sums {
  double steps = 0;
  double training = 0;
  double compute = 0;
  double communication = 0;
  double waiting = 0;
  double sent = 0;
  double received = 0;
  double dense_sent = 0;
  double dense_received = 0;
};

Sums SumsOf(const v1::JobStatus& job) {
  Sums sums;
  for (const v1::TaskStatus& task : job.tasks()) {
    sums.steps += task.steps();
    sums.training += task.training_seconds();
    sums.compute += task.compute_seconds();
    sums.communication += task.exposed_communication_seconds();
    sums.waiting += task.waiting_seconds();
    const double other_sent = task.other_bytes_sent(), other_received = task.other_bytes_received();
    if (job.spec().update().dense() == v1::UpdateSpec::ALL_REDUCE) {
      sums.sent += task.bytes_sent() + other_sent;
      sums.received += task.bytes_received() + other_received;
      sums.dense_sent += task.bytes_sent();
      sums.dense_received += task.bytes_received();
    } else {
      sums.sent += task.bytes_pushed();
      sums.received += task.bytes_pulled();
      sums.dense_sent += task.bytes_pushed() - other_sent;
      sums.dense_received += task.bytes_pulled() - other_received;
    }
  }
  return sums;
}

// `placed`: a status from when the job's partitions were on servers.
absl::StatusOr<PredictedTraffic> Predict(const v1::JobStatus& placed, const v1::JobStatus& end) {
  if (end.checkpoint_uri().empty()) {
    return absl::InternalError(absl::StrCat("job ", end.job_id(), " ended without a checkpoint"));
  }
  LocalStorage storage;
  MUSTER_ASSIGN_OR_RETURN(const v1::CheckpointManifest manifest,
                          ReadManifest(storage, end.checkpoint_uri()));
  const int workers = end.spec().workers();
  MUSTER_ASSIGN_OR_RETURN(const DType wire, WireDType(end.spec().update().wire()));
  const int element = static_cast<int>(SizeOf(wire));
  if (end.spec().update().dense() == v1::UpdateSpec::ALL_REDUCE) {
    return PredictAllReduceTraffic(manifest.schema(), workers, element);
  }
  std::vector<const v1::PartitionPlacement*> partitions;
  for (const v1::PartitionPlacement& partition : placed.partitions()) {
    partitions.push_back(&partition);
  }
  return PredictServerTraffic(manifest.schema(), partitions, workers, element);
}

}  // namespace

MeasuredRun Figures(const v1::JobStatus& warm, const v1::JobStatus& end) {
  // Statuses come a few times a second: a warm-up that was told of too late would leave nothing.
  if (2 * warm.progress().step() > end.progress().step()) return Figures(v1::JobStatus(), end);
  MeasuredRun run;
  run.steps = end.progress().step();
  run.warmup_steps = warm.progress().step();
  run.training_seconds = end.progress().training_seconds();
  run.mean_staleness = end.progress().mean_staleness();
  run.max_staleness = static_cast<double>(end.progress().max_staleness());
  const Sums before = SumsOf(warm), after = SumsOf(end);
  const double workers = std::max(1, end.tasks_size());
  const double steps = std::max(1.0, after.steps - before.steps);
  const double seconds = (after.training - before.training) / workers;
  if (seconds > 0) run.steps_per_second = steps / workers / seconds;
  run.examples_per_second = run.steps_per_second * end.spec().batch_size();
  run.compute_seconds = (after.compute - before.compute) / steps;
  run.communication_seconds = (after.communication - before.communication) / steps;
  run.waiting_seconds = (after.waiting - before.waiting) / steps;
  run.worker_sent = (after.sent - before.sent) / steps;
  run.worker_received = (after.received - before.received) / steps;
  run.dense_sent = (after.dense_sent - before.dense_sent) / steps;
  run.dense_received = (after.dense_received - before.dense_received) / steps;
  for (const v1::TaskStatus& task : end.tasks()) {
    run.worker_cpu_seconds += task.process_cpu_seconds();
    run.worker_peak_bytes = std::max<uint64_t>(run.worker_peak_bytes, task.process_peak_bytes());
  }
  for (const v1::EvaluationResult& evaluation : end.evaluations()) {
    run.metric = evaluation.metric();
    run.curve.push_back({.step = evaluation.clock(),
                         .examples = evaluation.clock() * end.spec().batch_size(),
                         .seconds = evaluation.training_seconds(),
                         .loss = evaluation.loss(),
                         .metric = evaluation.value()});
  }
  return run;
}

absl::StatusOr<MeasuredRun> MeasureRun(const v1::JobSpec& job, const Road& road,
                                       const MeasureOptions& options) {
  std::error_code error;
  std::string path =
      (std::filesystem::temp_directory_path(error) / "muster-compare-XXXXXX").string();
  if (error || mkdtemp(path.data()) == nullptr) {
    return absl::InternalError(absl::StrCat("cannot make a temporary folder like ", path,
                                            "; set TMPDIR to one that is "
                                            "there and can be written"));
  }
  const ClusterFolder folder(path);
  // Logs are worth keeping where daemons failed.
  bool keep = true;
  const absl::Cleanup stop = [&folder, &keep] {
    const absl::Status stopped = StopLocalCluster(folder);
    std::error_code ignored;
    if (!keep && (stopped.ok() || absl::IsNotFound(stopped))) {
      std::filesystem::remove_all(folder.path(), ignored);
    }
  };
  const bool needs_servers = road.kind != Road::Kind::kAllReduce;
  MUSTER_ASSIGN_OR_RETURN(
      const LocalCluster cluster,
      StartLocalCluster(folder, {.servers = needs_servers ? options.servers : 0,
                                 .workers = static_cast<int>(std::max(1u, job.workers())),
                                 .worker_flags = options.worker_flags,
                                 .life = LocalClusterOptions::Life::kOfThisProcess}));
  JobClient jobs(cluster.coordinator_address, RpcCredentials::PlainText());
  std::string job_id;
  keep = false;
  MUSTER_RETURN_IF_ERROR(jobs.Submit(job, job_id));
  keep = true;
  v1::JobStatus warm, placed, end;
  const absl::Status watched = jobs.Watch(
      job_id,
      [&](const v1::JobStatus& status) {
        if (warm.job_id().empty() && !HasEnded(status) &&
            status.progress().step() >= options.warmup_steps) {
          warm = status;
        }
        if (status.partitions_size() > 0) placed = status;
        options.changed(status);
      },
      end);
  if (!watched.ok()) {
    return absl::Status(watched.code(),
                        absl::StrCat(watched.message(), "; the cluster's logs are in ", path));
  }
  if (end.state() != v1::SUCCEEDED) {
    return absl::FailedPreconditionError(absl::StrCat(road.name, " ended as ", StateName(end), ": ",
                                                      end.message(), "; its logs are in ", path));
  }
  MeasuredRun run = Figures(warm, end);
  run.road = road.name;
  MUSTER_ASSIGN_OR_RETURN(run.predicted, Predict(placed, end));
  for (const ProcessUsage& server : UsageOfChildren(cluster.supervisor_pid, "muster-server")) {
    run.server_cpu_seconds += server.cpu_seconds;
    run.server_peak_bytes += server.peak_bytes;
  }
  keep = false;
  return run;
}

}  // namespace muster

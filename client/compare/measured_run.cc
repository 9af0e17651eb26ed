#include "client/compare/measured_run.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/cluster/job_client.h"
#include "client/cluster/local_cluster.h"
#include "client/compare/pass_times.h"
#include "client/compare/process_usage.h"
#include "client/terminal/progress.h"
#include "common/base/machine/multiplies_bfloat16.h"
#include "common/base/machine/usable_resources.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/local_storage.h"
#include "common/checkpoint/manifest.h"
#include "common/job_data/data_head.h"
#include "common/plan/memory/memory_plan.h"
#include "common/plan/passes/step_costs.h"
#include "common/plan/size/model_size.h"
#include "common/rpc/parameter_service/grpc_parameter_client.h"
#include "common/rpc/parameter_service/parameter_client.h"
#include "common/rpc/rpc_credentials.h"
#include "common/step/step_batches.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "proto/metrics.pb.h"
#include "proto/parameter_service.pb.h"
#include "proto/schema.pb.h"
#include "proto/status.pb.h"
#include "proto/trace.pb.h"

namespace muster {
namespace {

// Traces some steps of a job on a thread of its own, while the job goes on. Used by one thread.
class StepTracer {
 public:
  // `coordinator`: the address of the job's coordinator, which takes plain text.
  StepTracer(std::string coordinator, uint32_t steps)
      : coordinator_(std::move(coordinator)), steps_(steps) {}
  ~StepTracer() { Join(); }

  StepTracer(const StepTracer&) = delete;
  StepTracer& operator=(const StepTracer&) = delete;

  // Begins to trace the next steps of the job; a no-op after the first time.
  void Start(const std::string& job_id) {
    if (thread_.joinable()) return;
    thread_ = std::thread([this, job_id] {
      JobClient jobs(coordinator_, RpcCredentials::PlainText());
      v1::TraceJobRequest request;
      request.set_job_id(job_id);
      request.set_steps(steps_);
      // A job that has ended has no times.
      jobs.Trace(request,
                 [this](const v1::TraceChunk& chunk) {
                   AddTimes(chunk, times_);
                   return absl::OkStatus();
                 })
          .IgnoreError();
    });
  }

  // Waits for the end of the trace. Returns the times, which lack those of slots that sent nothing.
  PassTimes Take() {
    Join();
    return std::move(times_);
  }

 private:
  void Join() {
    if (thread_.joinable()) thread_.join();
  }

  const std::string coordinator_;
  const uint32_t steps_;
  std::thread thread_;
  // The thread's, as long as it runs.
  PassTimes times_;
};

constexpr absl::Duration kStatsTimeout = absl::Seconds(10);
// Points of a series that a comparison draws.
constexpr uint32_t kHistoryPoints = 1000;
// Among a worker's flags.
constexpr char kOverTcp[] = "--collectives-transport=tcp";

// Sums over the tasks of a job.
struct Sums {
  double steps = 0;
  double training = 0;
  double compute = 0;
  double communication = 0;
  double waiting = 0;
};

Sums SumsOf(const v1::JobStatus& job) {
  Sums sums;
  for (const v1::TaskStatus& task : job.tasks()) {
    sums.steps += task.steps();
    sums.training += task.training_seconds();
    sums.compute += task.compute_seconds();
    sums.communication += task.exposed_communication_seconds();
    sums.waiting += task.waiting_seconds();
  }
  return sums;
}

bool ByAllReduce(const v1::JobStatus& job) {
  return job.spec().update().dense() == v1::UpdateSpec::ALL_REDUCE;
}

// Payload of a task so far. Bytes of collective calls leave out what is not dense; those of servers
// do not.
struct TaskBytes {
  TaskBytes(const v1::TaskStatus& task, const v1::JobStatus& job) {
    const WorkerTraffic other = {.sent = static_cast<double>(task.other_bytes_sent()),
                                 .received = static_cast<double>(task.other_bytes_received())};
    dense = {.sent = static_cast<double>(task.bytes_sent()),
             .received = static_cast<double>(task.bytes_received())};
    if (!ByAllReduce(job)) {
      dense += {.sent = static_cast<double>(task.bytes_pushed()) - other.sent,
                .received = static_cast<double>(task.bytes_pulled()) - other.received};
    }
    all = dense;
    all += other;
  }

  WorkerTraffic all;
  WorkerTraffic dense;
};

// An empty one if the job had no task in the slot yet.
v1::TaskStatus TaskOf(uint32_t slot, const v1::JobStatus& job) {
  for (const v1::TaskStatus& task : job.tasks()) {
    if (task.slot() == slot) return task;
  }
  return v1::TaskStatus();
}

WorkerTraffic PerStep(const WorkerTraffic& before, const WorkerTraffic& after, double steps) {
  return {.sent = (after.sent - before.sent) / steps,
          .received = (after.received - before.received) / steps};
}

// Each worker by its own steps: statuses come while some are a step ahead of others.
void AddTraffic(const v1::JobStatus& warm, const v1::JobStatus& end, MeasuredRun& run) {
  for (const v1::TaskStatus& task : end.tasks()) {
    v1::TaskStatus earlier = TaskOf(task.slot(), warm);
    // On a busy machine a worker may have told of all its steps before the others told of a few.
    if (earlier.steps() == task.steps()) earlier.Clear();
    const TaskBytes before(earlier, end), after(task, end);
    const double steps =
        std::max(1.0, static_cast<double>(task.steps()) - static_cast<double>(earlier.steps()));
    run.workers.push_back(PerStep(before.all, after.all, steps));
    run.dense.push_back(PerStep(before.dense, after.dense, steps));
  }
}

// `placed`: a status from when the job's partitions were on servers, which have served nobody else.
absl::StatusOr<std::map<std::string, double>> MeasureServers(const v1::JobStatus& placed,
                                                             const v1::JobStatus& end) {
  const double steps =
      std::max(1.0, static_cast<double>(end.progress().step()) + end.evaluations_size());
  std::map<std::string, double> sent;
  for (const v1::PartitionPlacement& partition : placed.partitions()) {
    for (const v1::Replica& replica : partition.replicas()) {
      if (replica.role() != v1::Replica::PRIMARY || sent.count(replica.server_id()) > 0) continue;
      const std::unique_ptr<ParameterClient> server =
          MakeGrpcParameterClient(replica.address(), RpcCredentials::PlainText());
      MUSTER_ASSIGN_OR_RETURN(const v1::GetServerStatsReply stats, server->Stats(kStatsTimeout));
      sent[replica.server_id()] = static_cast<double>(stats.dense_bytes_pulled()) / steps;
    }
  }
  return sent;
}

AllReduceWay WayOf(const v1::JobSpec& job, const std::vector<std::string>& worker_flags) {
  if (job.compute().device() == v1::ComputeSpec::CUDA) return AllReduceWay::kDevices;
  const bool tcp = std::count(worker_flags.begin(), worker_flags.end(), kOverTcp) > 0;
  return tcp ? AllReduceWay::kTcp : AllReduceWay::kSharedMemory;
}

// Returns the schema of the job's last checkpoint.
absl::StatusOr<v1::TablesSchema> ReadSchema(const v1::JobStatus& end) {
  if (end.checkpoint_uri().empty()) {
    return absl::InternalError(absl::StrCat("job ", end.job_id(), " ended without a checkpoint"));
  }
  LocalStorage storage;
  MUSTER_ASSIGN_OR_RETURN(const v1::CheckpointManifest manifest,
                          ReadManifest(storage, end.checkpoint_uri()));
  return manifest.schema();
}

// `placed`: as for MeasureServers.
absl::StatusOr<PredictedTraffic> Predict(const v1::TablesSchema& schema,
                                         const v1::JobStatus& placed, const v1::JobStatus& end,
                                         const std::vector<std::string>& worker_flags) {
  const AllReduceWay way = WayOf(end.spec(), worker_flags);
  if (ByAllReduce(end)) return PredictAllReduceTraffic(schema, end.spec(), way);
  std::vector<const v1::PartitionPlacement*> partitions;
  for (const v1::PartitionPlacement& partition : placed.partitions()) {
    partitions.push_back(&partition);
  }
  return PredictServerTraffic(schema, partitions, end.spec(), way);
}

// Adds what the passes' times say of the job's schedule.
void AddSchedule(const v1::TablesSchema& schema, const PassTimes& times, MeasuredRun& run) {
  const std::optional<ScheduleFigures> figures = FiguresOfSchedule(
      run.spec, {schema.pipeline_layers().begin(), schema.pipeline_layers().end()}, times);
  if (!figures.has_value()) return;
  run.predicted_steps_per_second = 1 / figures->predicted_seconds;
  run.predicted_bubble = figures->predicted_bubble;
  run.bubble = figures->bubble;
}

absl::StatusOr<std::vector<v1::Series>> ReadHistory(JobClient& jobs, const std::string& job_id) {
  v1::ReadMetricsRequest request;
  request.set_job_id(job_id);
  for (const char* pattern : {"train/*", "held_out/*", "speed/*", "staleness/*"}) {
    request.add_series(pattern);
  }
  request.set_max_points(kHistoryPoints);
  v1::MetricsChunk history;
  MUSTER_RETURN_IF_ERROR(jobs.History(request, history));
  return std::vector<v1::Series>(history.series().begin(), history.series().end());
}

}  // namespace

MeasuredRun Figures(const v1::JobStatus& warm, const v1::JobStatus& end) {
  // Statuses come a few times a second: a warm-up that was told of too late would leave nothing.
  if (2 * warm.progress().step() > end.progress().step()) return Figures(v1::JobStatus(), end);
  MeasuredRun run;
  run.spec = end.spec();
  run.started_unix_ms = end.started_unix_ms();
  run.steps = end.progress().step();
  run.warmup_steps = warm.progress().step();
  run.training_seconds = end.progress().training_seconds();
  run.mean_staleness = end.progress().mean_staleness();
  run.max_staleness = static_cast<double>(end.progress().max_staleness());
  run.training_loss = end.progress().loss();
  const Sums before = SumsOf(warm), after = SumsOf(end);
  const double workers = std::max(1, end.tasks_size());
  const double steps = std::max(1.0, after.steps - before.steps);
  const double seconds = (after.training - before.training) / workers;
  if (seconds > 0) run.steps_per_second = steps / workers / seconds;
  const std::vector<v1::Adjustment> decided(end.adjustments().begin(), end.adjustments().end());
  const StepBatches batches = BatchesOf(end.spec(), {}, decided);
  const auto examples_before = [&](uint64_t clock) {
    return static_cast<double>(batches.At(static_cast<int64_t>(clock)).begin);
  };
  if (run.steps > run.warmup_steps) {
    run.examples_per_second = run.steps_per_second *
                              (examples_before(run.steps) - examples_before(run.warmup_steps)) /
                              static_cast<double>(run.steps - run.warmup_steps);
  }
  run.compute_seconds = (after.compute - before.compute) / steps;
  run.communication_seconds = (after.communication - before.communication) / steps;
  run.waiting_seconds = (after.waiting - before.waiting) / steps;
  AddTraffic(warm, end, run);
  for (const v1::TaskStatus& task : end.tasks()) {
    run.worker_cpu_seconds += task.process_cpu_seconds();
    const uint64_t peak = task.process_peak_bytes();
    run.worker_peak_bytes = std::max(run.worker_peak_bytes, peak);
    run.worker_own_peak_bytes =
        std::max(run.worker_own_peak_bytes, peak - std::min(peak, task.process_mapped_bytes()));
  }
  for (const v1::EvaluationResult& evaluation : end.evaluations()) {
    run.metric = evaluation.metric();
    run.curve.push_back({.step = evaluation.clock(),
                         .examples = static_cast<uint64_t>(examples_before(evaluation.clock())),
                         .seconds = evaluation.training_seconds(),
                         .loss = evaluation.loss(),
                         .metric = std::nullopt});
    if (evaluation.no_value().empty()) run.curve.back().metric = evaluation.value();
  }
  return run;
}

absl::StatusOr<MeasuredRun> MeasureRun(const v1::JobSpec& job, const Road& road,
                                       const MeasureOptions& options) {
  std::error_code error;
  std::string path =
      (std::filesystem::temp_directory_path(error) / "muster-compare-XXXXXX").string();
  if (error || mkdtemp(path.data()) == nullptr) {
    return absl::InternalError(
        absl::StrCat("cannot make a temporary folder like ", path,
                     "; set TMPDIR to an existing folder that you can write to"));
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
  StepTracer tracer(cluster.coordinator_address, options.traced_steps);
  const bool traces = options.traced_steps > 0 && job.parallelism().pipeline() > 1;
  const absl::Status watched = jobs.Watch(
      job_id,
      [&](const v1::JobStatus& status) {
        if (warm.job_id().empty() && !HasEnded(status) &&
            status.progress().step() >= options.warmup_steps) {
          warm = status;
          if (traces) tracer.Start(job_id);
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
  MUSTER_ASSIGN_OR_RETURN(run.history, ReadHistory(jobs, job_id));
  const DataSize data = ReadDataHead(job);
  run.planned_step_flops = CostsOfStep(job, SizeOfModel(job, data), data.document_tokens).flops();
  run.planned_worker_own_bytes = PlanMemory(job, data,
                                            {.multiply_bf16 = MultipliesBFloat16(),
                                             .threads = static_cast<uint32_t>(UsableProcessors())})
                                     .worker_own_bytes();
  MUSTER_ASSIGN_OR_RETURN(run.server_sent, MeasureServers(placed, end));
  MUSTER_ASSIGN_OR_RETURN(const v1::TablesSchema schema, ReadSchema(end));
  MUSTER_ASSIGN_OR_RETURN(run.predicted, Predict(schema, placed, end, options.worker_flags));
  AddSchedule(schema, tracer.Take(), run);
  for (const ChildUsage& server : UsageOfChildren(cluster.supervisor_pid, "muster-server")) {
    run.server_cpu_seconds += server.cpu_seconds;
    run.server_peak_bytes += server.peak_bytes;
  }
  keep = false;
  return run;
}

}  // namespace muster

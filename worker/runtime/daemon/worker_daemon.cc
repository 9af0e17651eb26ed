#include "worker/runtime/daemon/worker_daemon.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/metrics/metric_families.h"
#include "common/metrics/metric_family_proto.h"
#include "common/program/program_proof.h"
#include "common/transport/keyed_hash.h"
#include "proto/cluster_service.pb.h"
#include "worker/runtime/process/task_process.h"
#include "worker/runtime/program/shipped_folder.h"

namespace muster {
namespace {

class ProcessTask final : public RunningTask {
 public:
  explicit ProcessTask(std::unique_ptr<TaskProcess> process) : process_(std::move(process)) {}
  void Kill() override { process_->Kill(); }

 private:
  const std::unique_ptr<TaskProcess> process_;
};

// For each f32 product, oneDNN allocates some MiB aligned to pages. malloc cuts off a small block
// in front for the alignment; glibc's cache of small blocks would keep it, so that the freed large
// block is too short for the next product. Up to 7 such blocks were found (docs/planning.md).
constexpr char kUncachedCuttings[] = "GLIBC_TUNABLES=glibc.malloc.tcache_count=0";

// Time in which the last text of a task must reach the coordinator before the task's end is told.
constexpr absl::Duration kToSendLog = absl::Seconds(10);

// Checks that the order to run a program comes from one who may give it.
absl::Status CheckProof(const v1::TaskOrder& order, const ProcessTaskOptions& given) {
  if (given.program_token.empty()) return absl::OkStatus();
  if (order.worker_id() == given.worker_id &&
      SameHash(order.proof(), ProofOfOrder(order, given.program_token))) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(
      "the order to run a program (model.program) has no proof that fits the --program-token-file "
      "of this worker; give it the same file as its coordinator, whose place another program may "
      "have taken");
}

std::vector<uint32_t> NumbersOf(const std::vector<OfferedDevice>& devices) {
  std::vector<uint32_t> numbers;
  for (const OfferedDevice& device : devices) numbers.push_back(device.number);
  return numbers;
}

}  // namespace

TaskStarter ProcessTaskStarter(ProcessTaskOptions given, LogShipper& logs) {
  given.arguments.insert(given.arguments.begin(), kTaskFlag);
  // What tasks of a daemon that was killed have left.
  if (given.allow_programs) RemoveUnusedFolders(ShippedFoldersBase());
  return [given = std::move(given), &logs](const v1::TaskOrder& order,
                                           std::function<void(const v1::TaskReport&)> ended)
             -> absl::StatusOr<std::unique_ptr<RunningTask>> {
    const bool runs_program = order.spec().model().has_program();
    if (runs_program && !given.allow_programs) {
      return absl::FailedPreconditionError(
          "this worker runs no programs (model.program): it was started without "
          "--allow-programs");
    }
    if (runs_program) MUSTER_RETURN_IF_ERROR(CheckProof(order, given));
    v1::TaskOrder reachable = order;
    reachable.set_coordinator_address(given.coordinator_address);
    TaskProcessOptions options;
    const bool on_device =
        !runs_program && order.spec().compute().device() == v1::ComputeSpec::CUDA;
    const std::string& program = on_device ? given.device_program : given.task_program;
    if (!program.empty()) options.program = program;
    options.arguments = given.arguments;
    options.silence = given.silence;
    if (runs_program) {
      options.grace = absl::Seconds(order.spec().model().program().grace_seconds());
    }
    // Matrix products start this many threads; spinning ones would starve the other tasks of the
    // machine.
    options.environment = {
        absl::StrCat("OMP_NUM_THREADS=", std::max(1u, order.spec().threads_per_worker())),
        "OMP_WAIT_POLICY=passive", kUncachedCuttings};
    options.output = [&logs, job = order.job_id(), slot = order.slot()](absl::string_view text) {
      logs.Add(job, slot, text);
    };
    const bool has_folder = !order.spec().model().program().shipped().empty();
    options.ended = [&logs, has_folder, job = order.job_id(), slot = order.slot(),
                     ended = std::move(ended)](const v1::TaskReport& report) {
      // A task that was killed leaves its folder.
      if (has_folder) RemoveUnusedFolders(ShippedFoldersBase());
      if (report.state() == v1::TaskReport::DIED) {
        logs.Add(job, slot, absl::StrCat("the task died: ", report.message(), "\n"));
      }
      // Whoever learns of the end finds all of the task's text in the log.
      logs.FlushSlot(job, slot, kToSendLog);
      ended(report);
    };
    absl::StatusOr<std::unique_ptr<TaskProcess>> process =
        TaskProcess::Start(reachable, std::move(options));
    if (!process.ok()) return process.status();
    return std::make_unique<ProcessTask>(*std::move(process));
  };
}

WorkerDaemon::WorkerDaemon(ClusterClient& cluster, TaskStarter start, WorkerDaemonOptions options,
                           const Clock& clock, Waiter& waiter)
    : options_(std::move(options)),
      clock_(clock),
      running_(prometheus::BuildGauge()
                   .Name("muster_worker_tasks")
                   .Help("Tasks that run on this worker.")
                   .Register(metrics_)
                   .Add({})),
      started_(prometheus::BuildCounter()
                   .Name("muster_worker_tasks_started_total")
                   .Help("Tasks that this worker has started.")
                   .Register(metrics_)
                   .Add({})),
      ended_(prometheus::BuildCounter()
                 .Name("muster_worker_tasks_ended_total")
                 .Help("Tasks of this worker that ended, for whatever reason.")
                 .Register(metrics_)
                 .Add({})),
      tasks_(
          [this, start = std::move(start)](const v1::TaskOrder& order,
                                           std::function<void(const v1::TaskReport&)> ended) {
            options_.log(absl::StrCat("starts slot ", order.slot(), " of job ", order.job_id(),
                                      ", generation ", order.generation(), ", incarnation ",
                                      order.incarnation()));
            started_.Increment();
            return start(order, std::move(ended));
          },
          NumbersOf(options_.identity.devices),
          [this] {
            ended_.Increment();
            membership_.ReportSoon();
            TellIfTasksLeft();
          }),
      membership_(cluster, {.daemon = options_.identity, .backoff = {}}, clock, waiter,
                  Callbacks()) {}

WorkerDaemon::~WorkerDaemon() { Stop(absl::Seconds(1)); }

void WorkerDaemon::GiveNotice(absl::Duration grace, std::function<void(absl::string_view)> left) {
  {
    absl::MutexLock lock(&mutex_);
    notice_ = Notice{.ends = clock_.Monotonic() + grace, .left = std::move(left)};
  }
  membership_.ReportSoon();
  TellIfTasksLeft();
}

void WorkerDaemon::ReportNotice(v1::HeartbeatRequest& heartbeat) const {
  absl::MutexLock lock(&mutex_);
  if (!notice_.has_value()) return;
  const int64_t left = absl::ToInt64Milliseconds(notice_->ends - clock_.Monotonic());
  // 0 would say that the daemon stays.
  heartbeat.set_leaves_within_ms(static_cast<uint32_t>(std::clamp<int64_t>(left, 1, UINT32_MAX)));
}

void WorkerDaemon::Left(absl::string_view why) {
  std::function<void(absl::string_view)> left;
  {
    absl::MutexLock lock(&mutex_);
    if (notice_.has_value()) left = std::exchange(notice_->left, nullptr);
  }
  if (left != nullptr) left(why);
}

void WorkerDaemon::TellIfTasksLeft() {
  if (tasks_.CountToLeave() == 0) Left("no tasks are left here");
}

void WorkerDaemon::Stop(absl::Duration timeout) {
  // Programs may save a checkpoint in their grace, which the coordinator takes from members alone.
  tasks_.StopAll();
  membership_.Leave(timeout);
}

MembershipCallbacks WorkerDaemon::Callbacks() {
  MembershipCallbacks callbacks;
  callbacks.report = [this](v1::HeartbeatRequest& heartbeat) {
    tasks_.Report(heartbeat);
    ReportNotice(heartbeat);
    running_.Set(tasks_.running());
    MetricFamilies families;
    AddBuildInfo("muster-worker", families);
    families.Add(metrics_.Collect());
    for (const auto& [name, family] : families.families()) {
      ToProto(family, *heartbeat.add_metrics());
    }
  };
  callbacks.orders = [this](const v1::HeartbeatReply& orders) {
    tasks_.Reconcile(orders);
    TellIfTasksLeft();
  };
  callbacks.failed = [this] { Left("the coordinator does not answer"); };
  callbacks.registered = [this](uint64_t incarnation) {
    options_.log(absl::StrCat("joined the cluster as incarnation ", incarnation));
    if (options_.member) options_.member(incarnation);
  };
  callbacks.lease_lost = [this](const absl::Status& status) {
    options_.log(
        absl::StrCat("no longer a member, joining again; tasks go on: ", status.message()));
    if (options_.member) options_.member(0);
  };
  callbacks.trouble = [this](const absl::Status& status) { options_.log(status.message()); };
  callbacks.refused = options_.refused;
  return callbacks;
}

}  // namespace muster

#include "tests/benchmarks/coordinator/scale_case.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cluster/job_client.h"
#include "common/base/status_macros.h"
#include "common/rpc/rpc_credentials.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "tests/benchmarks/coordinator/answer_times.h"
#include "tests/benchmarks/coordinator/coordinator_process.h"
#include "tests/benchmarks/coordinator/fleet.h"
#include "tests/benchmarks/coordinator/fleet_process.h"

namespace muster {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(3);
constexpr double kMiB = 1024.0 * 1024.0;

double SecondsSince(int64_t begin, int64_t end) { return static_cast<double>(end - begin) / 1e9; }

// Returns a job that never ends by itself.
v1::JobSpec Job(const std::string& name, int slots) {
  v1::JobSpec spec;
  spec.set_name(name);
  spec.set_owner("bench");
  v1::MlpSpec& mlp = *spec.mutable_model()->mutable_mlp();
  mlp.add_hidden(64);
  mlp.set_classes(10);
  auto& data = *spec.mutable_data()->mutable_synthetic_classification();
  data.set_examples(100'000);
  data.set_features(64);
  data.set_classes(10);
  spec.mutable_data()->set_holdout(0.1);
  spec.mutable_optimizer()->set_name("sgd");
  spec.mutable_optimizer()->set_learning_rate(0.1f);
  spec.set_workers(static_cast<uint32_t>(slots));
  spec.set_batch_size(static_cast<uint32_t>(32 * slots));
  spec.mutable_stop()->set_steps(1'000'000'000);
  return spec;
}

v1::JobSpec AllReduceJob(const std::string& name, int slots) {
  v1::JobSpec spec = Job(name, slots);
  spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  return spec;
}

v1::JobSpec ServerJob(const std::string& name, int slots, int servers) {
  v1::JobSpec spec = Job(name, slots);
  const int used = std::min(servers, 4);
  spec.set_servers(static_cast<uint32_t>(used));
  spec.mutable_update()->set_partitions(static_cast<uint32_t>(used));
  return spec;
}

class ScaleCase {
 public:
  explicit ScaleCase(const ScaleOptions& options)
      : options_(options), coordinator_(options.folder) {}

  absl::Status Run() {
    MUSTER_RETURN_IF_ERROR(coordinator_.Start());
    MUSTER_ASSIGN_OR_RETURN(fleet_, FleetProcesses::Start({.coordinator = coordinator_.address(),
                                                           .processes = options_.processes,
                                                           .workers = options_.workers,
                                                           .servers = options_.servers()}));
    jobs_ = std::make_unique<JobClient>(coordinator_.address(), RpcCredentials::PlainText(),
                                        JobClient::Patience{.call = kPatience});
    MUSTER_RETURN_IF_ERROR(Idle());
    MUSTER_RETURN_IF_ERROR(Gang());
    MUSTER_RETURN_IF_ERROR(Busy());
    MUSTER_RETURN_IF_ERROR(Restart());
    MUSTER_ASSIGN_OR_RETURN(const FleetProcesses::Totals totals, fleet_->Count());
    if (totals.errors == 0) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat(totals.errors,
                     " calls of simulated daemons and tasks failed in ways that the "
                     "protocol does not foresee"));
  }

  std::vector<ScaleFigure> TakeFigures() { return std::move(figures_); }

 private:
  void Add(const std::string& part, const std::string& metric, const std::string& unit,
           std::vector<double> samples, std::optional<double> target = std::nullopt) {
    figures_.push_back({part, metric, unit, std::move(samples), target});
  }

  // Measures the load of `window`, during which `work` runs.
  template <typename Work>
  absl::Status AddLoad(const std::string& part, const Work& work) {
    MUSTER_ASSIGN_OR_RETURN(const FleetProcesses::Totals before, fleet_->Count());
    const CoordinatorProcess::Usage usage_before = coordinator_.ReadUsage();
    const int64_t begin = SharedNanoseconds();
    MUSTER_RETURN_IF_ERROR(work());
    const CoordinatorProcess::Usage usage = coordinator_.ReadUsage();
    const double seconds = SecondsSince(begin, SharedNanoseconds());
    MUSTER_ASSIGN_OR_RETURN(const FleetProcesses::Totals after, fleet_->Count());
    Add(part, "heartbeats", "1/s",
        {static_cast<double>(after.heartbeats - before.heartbeats) / seconds});
    if (after.progress_reports > before.progress_reports) {
      Add(part, "reports of progress", "1/s",
          {static_cast<double>(after.progress_reports - before.progress_reports) / seconds});
    }
    Add(part, "coordinator's processor time", "% of a core",
        {100 * (usage.cpu_seconds - usage_before.cpu_seconds) / seconds});
    Add(part, "simulated daemons' processor time", "% of a core",
        {100 * (after.cpu_seconds - before.cpu_seconds) / seconds});
    Add(part, "memory", "MiB", {static_cast<double>(usage.resident_bytes) / kMiB});
    return absl::OkStatus();
  }

  absl::Status Pass(absl::Duration time) {
    absl::SleepFor(time);
    return absl::OkStatus();
  }

  absl::Status Idle() {
    const int64_t begin = SharedNanoseconds();
    MUSTER_RETURN_IF_ERROR(fleet_->StartDaemons());
    MUSTER_ASSIGN_OR_RETURN(const int64_t end, fleet_->Await(FleetEvent::kAnswered, kPatience));
    Add("idle", "all daemons have registered", "s", {SecondsSince(begin, end)});
    return AddLoad("idle", [this] { return Pass(options_.window); });
  }

  // One job of all slots.
  absl::Status Gang() {
    std::vector<double> ordered, met, again, after_loss;
    for (int i = 0; i < options_.meetings; ++i) {
      MUSTER_RETURN_IF_ERROR(fleet_->Mark());
      const int64_t begin = SharedNanoseconds();
      std::string job;
      MUSTER_RETURN_IF_ERROR(
          jobs_->Submit(AllReduceJob(absl::StrCat("gang-", i), options_.workers), job));
      MUSTER_ASSIGN_OR_RETURN(const int64_t placed, fleet_->Await(FleetEvent::kOrdered, kPatience));
      MUSTER_ASSIGN_OR_RETURN(const int64_t end, fleet_->Await(FleetEvent::kMet, kPatience));
      ordered.push_back(SecondsSince(begin, placed));
      met.push_back(SecondsSince(begin, end));
      MUSTER_RETURN_IF_ERROR(MeetAgain(/*replaced=*/-1, again));
      MUSTER_RETURN_IF_ERROR(MeetAgain(/*replaced=*/i, after_loss));
      if (i + 1 == options_.meetings) MUSTER_RETURN_IF_ERROR(ReportAsGang(job));
      v1::JobStatus status;
      MUSTER_RETURN_IF_ERROR(jobs_->Cancel(job, "measured", status));
    }
    Add("gang", "every slot has its order", "s", ordered, 5);
    Add("gang", "all slots have met", "s", met, 5);
    Add("gang", "a round is left, and all have met again", "s", again, 2);
    Add("gang", "a worker is replaced, and all have met again", "s", after_loss, 2);
    for (ScaleFigure& figure : reported_by_gang_) figures_.push_back(std::move(figure));
    return absl::OkStatus();
  }

  absl::Status MeetAgain(int replaced, std::vector<double>& seconds) {
    MUSTER_RETURN_IF_ERROR(fleet_->Mark());
    const int64_t begin = SharedNanoseconds();
    MUSTER_RETURN_IF_ERROR(fleet_->MeetAgain(replaced));
    MUSTER_ASSIGN_OR_RETURN(const int64_t end, fleet_->Await(FleetEvent::kMet, kPatience));
    seconds.push_back(SecondsSince(begin, end));
    return absl::OkStatus();
  }

  absl::Status ReportAsGang(const std::string& job) {
    std::vector<ScaleFigure> before = std::exchange(figures_, {});
    MUSTER_RETURN_IF_ERROR(fleet_->SetReporting(true));
    MUSTER_RETURN_IF_ERROR(AwaitReports());
    MUSTER_RETURN_IF_ERROR(AddAnswers("gang reports", job, options_.window));
    MUSTER_RETURN_IF_ERROR(fleet_->SetReporting(false));
    reported_by_gang_ = std::exchange(figures_, std::move(before));
    return absl::OkStatus();
  }

  // Waits until each task has reported twice: the first report of many is of more steps than usual.
  absl::Status AwaitReports() {
    for (int i = 0; i < 2; ++i) {
      MUSTER_RETURN_IF_ERROR(fleet_->Mark());
      MUSTER_RETURN_IF_ERROR(fleet_->Await(FleetEvent::kReported, kPatience).status());
    }
    return absl::OkStatus();
  }

  // Measures the load, and the answers that users get meanwhile.
  absl::Status AddAnswers(const std::string& part, const std::string& job, absl::Duration window) {
    AnswerTimes times;
    MUSTER_RETURN_IF_ERROR(AddLoad(part, [&]() -> absl::Status {
      MUSTER_ASSIGN_OR_RETURN(times, MeasureAnswers({.coordinator = coordinator_.address(),
                                                     .page = coordinator_.page(),
                                                     .job = job,
                                                     .duration = window}));
      return absl::OkStatus();
    }));
    const auto add = [&](const std::string& what, const std::vector<double>& sorted,
                         std::optional<double> target) {
      Add(part, what + ", median", "ms", {Quantile(sorted, 0.5)});
      Add(part, what + ", 99th percentile", "ms", {Quantile(sorted, 0.99)}, target);
    };
    add("status of a job", times.status, 50);
    add("list of 500 jobs", times.list, std::nullopt);
    add("the page's first view", times.page, 1000);
    add("/metrics", times.metrics, std::nullopt);
    return absl::OkStatus();
  }

  // Many jobs, and many that wait for them.
  absl::Status Busy() {
    MUSTER_RETURN_IF_ERROR(fleet_->Mark());
    MUSTER_RETURN_IF_ERROR(fleet_->SetReporting(true));
    const int64_t begin = SharedNanoseconds();
    for (int i = 0; i < options_.running_jobs(); ++i) {
      const std::string name = absl::StrCat("runs-", i);
      const int slots = options_.slots_per_job();
      MUSTER_RETURN_IF_ERROR(jobs_->Submit(
          i % 2 == 0 ? AllReduceJob(name, slots) : ServerJob(name, slots, options_.servers()),
          running_.emplace_back()));
    }
    MUSTER_ASSIGN_OR_RETURN(const int64_t met, fleet_->Await(FleetEvent::kMet, kPatience));
    Add("many jobs", "all that fit run", "s", {SecondsSince(begin, met)});
    const int64_t queue_begins = SharedNanoseconds();
    for (int i = 0; i < options_.queued_jobs(); ++i) {
      std::string job;
      MUSTER_RETURN_IF_ERROR(
          jobs_->Submit(AllReduceJob(absl::StrCat("waits-", i), options_.slots_per_job()), job));
    }
    Add("many jobs", "submission of one that waits", "ms",
        {1000 * SecondsSince(queue_begins, SharedNanoseconds()) / options_.queued_jobs()});
    MUSTER_RETURN_IF_ERROR(AwaitReports());
    return AddAnswers("many jobs", running_.front(), options_.answers_window);
  }

  absl::Status Restart() {
    Add("restart", "most memory before", "MiB",
        {static_cast<double>(coordinator_.ReadUsage().peak_bytes) / kMiB}, 1024);
    coordinator_.Kill();
    MUSTER_RETURN_IF_ERROR(fleet_->Mark());
    const int64_t begin = SharedNanoseconds();
    MUSTER_RETURN_IF_ERROR(coordinator_.Start());
    // A client that never saw the one before, and whose connection comes after all others.
    jobs_ = std::make_unique<JobClient>(
        coordinator_.address(), RpcCredentials::PlainText(),
        JobClient::Patience{.call = kPatience, .unreachable = kPatience});
    v1::JobStatus status;
    MUSTER_RETURN_IF_ERROR(jobs_->Get(running_.back(), status));
    Add("restart", "a status is answered", "s", {SecondsSince(begin, SharedNanoseconds())}, 10);
    MUSTER_ASSIGN_OR_RETURN(const int64_t back, fleet_->Await(FleetEvent::kAnswered, kPatience));
    Add("restart", "all daemons are back", "s", {SecondsSince(begin, back)}, 10);
    MUSTER_ASSIGN_OR_RETURN(const int64_t on, fleet_->Await(FleetEvent::kReported, kPatience));
    Add("restart", "all tasks have reported progress", "s", {SecondsSince(begin, on)}, 10);
    MUSTER_RETURN_IF_ERROR(AddLoad("restart", [this] { return Pass(options_.window); }));
    Add("restart", "most memory after", "MiB",
        {static_cast<double>(coordinator_.ReadUsage().peak_bytes) / kMiB}, 1024);
    return CheckJobs();
  }

  // Checks that all jobs are still what they were before the restart.
  absl::Status CheckJobs() {
    v1::ListJobsRequest request;
    request.set_view(v1::ListJobsRequest::SHORT);
    v1::ListJobsReply reply;
    MUSTER_RETURN_IF_ERROR(jobs_->List(request, reply));
    int running = 0, waiting = 0;
    for (const v1::JobStatus& job : reply.jobs()) {
      if (job.state() == v1::RUNNING && job.generation() == 1) ++running;
      if (job.state() == v1::PENDING) ++waiting;
    }
    if (running == options_.running_jobs() && waiting == options_.queued_jobs()) {
      return absl::OkStatus();
    }
    return absl::InternalError(absl::StrCat("after the restart ", running, " of ",
                                            options_.running_jobs(),
                                            " jobs run on in their first generation, and ", waiting,
                                            " of ", options_.queued_jobs(), " wait"));
  }

  const ScaleOptions options_;
  CoordinatorProcess coordinator_;
  std::unique_ptr<FleetProcesses> fleet_;
  std::unique_ptr<JobClient> jobs_;
  std::vector<std::string> running_;
  std::vector<ScaleFigure> reported_by_gang_;
  std::vector<ScaleFigure> figures_;
};

}  // namespace

absl::StatusOr<std::vector<ScaleFigure>> MeasureScale(const ScaleOptions& options) {
  ScaleCase scale(options);
  MUSTER_RETURN_IF_ERROR(scale.Run());
  return scale.TakeFigures();
}

}  // namespace muster

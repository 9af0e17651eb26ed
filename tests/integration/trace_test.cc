// `muster trace` on a cluster of real processes: what the file holds on either road, and what
// happens when a task is lost, when somebody else traces, and when the caller goes.

#include <signal.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job_service.pb.h"
#include "proto/trace.pb.h"
#include "tests/harness/jobs.h"
#include "tests/harness/muster_command.h"
#include "tests/harness/process_cluster.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

struct Event {
  std::string process;
  std::string thread;
  std::string name;
  uint64_t step = 0;
  double begin = 0;
  double end = 0;
};

// A file of `muster trace`, read and checked.
class TraceFile {
 public:
  explicit TraceFile(const std::string& path) {
    std::ifstream file(path);
    json_ = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
    EXPECT_TRUE(json_.is_object()) << path;
    if (!json_.is_object()) return;
    std::map<int, std::string> processes;
    std::map<std::pair<int, int>, std::string> threads;
    for (const nlohmann::json& event : json_["traceEvents"]) {
      if (event["name"] == "process_name") processes[event["pid"]] = event["args"]["name"];
      if (event["name"] == "thread_name") {
        threads[{event["pid"], event["tid"]}] = event["args"]["name"];
      }
    }
    for (const nlohmann::json& event : json_["traceEvents"]) {
      if (event["ph"] == "M") continue;
      // A complete event has its end.
      EXPECT_EQ(event["ph"], "X");
      EXPECT_GE(event["dur"].get<double>(), 0);
      const double begin = event["ts"];
      events_.push_back({.process = processes[event["pid"]],
                         .thread = threads[{event["pid"], event["tid"]}],
                         .name = event["name"],
                         .step = event["args"]["step"],
                         .begin = begin,
                         .end = begin + event["dur"].get<double>()});
      EXPECT_NE(events_.back().process, "");
      EXPECT_NE(events_.back().thread, "");
    }
  }

  const nlohmann::json& about() const { return json_["otherData"]; }
  const std::vector<Event>& events() const { return events_; }

  std::set<std::string> Processes() const {
    std::set<std::string> names;
    for (const Event& event : events_) names.insert(event.process);
    return names;
  }
  // Returns the events of processes whose names begin so.
  std::set<std::string> NamesOf(const std::string& process) const {
    std::set<std::string> names;
    for (const Event& event : events_) {
      if (absl::StartsWith(event.process, process)) names.insert(event.name);
    }
    return names;
  }

  // Expects that events of one thread lie one after another or in one another.
  void ExpectNested() const {
    std::map<std::pair<std::string, std::string>, std::vector<Event>> threads;
    for (const Event& event : events_) threads[{event.process, event.thread}].push_back(event);
    // Times are rounded to nanoseconds.
    constexpr double kRounding = 0.002;
    for (auto& [thread, events] : threads) {
      std::vector<Event> open;
      for (const Event& event : events) {
        while (!open.empty() && open.back().end <= event.begin + kRounding) open.pop_back();
        if (!open.empty()) {
          EXPECT_LE(event.end, open.back().end + kRounding)
              << event.name << " overlaps " << open.back().name << " on " << thread.first << ", "
              << thread.second;
        }
        open.push_back(event);
      }
    }
  }

  // Expects that the slot made the steps to the last, each once and in order. A task that learns of
  // the trace late, since the machine is busy, leaves out the first ones.
  void ExpectSteps(const std::string& slot, uint64_t first, uint64_t end) const {
    std::vector<uint64_t> steps, expected;
    for (const Event& event : events_) {
      if (absl::StartsWith(event.process, slot) && event.name == "step") {
        steps.push_back(event.step);
      }
    }
    ASSERT_FALSE(steps.empty()) << slot;
    EXPECT_GE(steps[0], first) << slot;
    for (uint64_t step = steps[0]; step < end; ++step) expected.push_back(step);
    EXPECT_EQ(steps, expected) << slot;
  }

 private:
  nlohmann::json json_;
  std::vector<Event> events_;
};

class TraceTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto started = ProcessCluster::Start({});
    ASSERT_EQ(started.status(), absl::OkStatus());
    cluster_ = started->release();
  }
  static void TearDownTestSuite() { delete cluster_; }
  void SetUp() override { ASSERT_NE(cluster_, nullptr); }
  void TearDown() override {
    if (job_.empty()) return;
    v1::JobStatus status;
    EXPECT_EQ(cluster_->jobs().Cancel(job_, "the test is over", status), absl::OkStatus());
    EXPECT_EQ(cluster_->AwaitEnd(job_).status(), absl::OkStatus());
  }

  // Starts a job that trains until the test is over, and waits until it does.
  void Start(v1::JobSpec spec) {
    spec.mutable_stop()->set_steps(100'000'000);
    const absl::StatusOr<std::string> job = cluster_->Submit(spec);
    ASSERT_EQ(job.status(), absl::OkStatus());
    job_ = *job;
    const auto runs = cluster_->Await(job_, [](const v1::JobStatus& status) {
      return status.progress().step() > 0 && status.progress().seconds_left() > 0;
    });
    ASSERT_EQ(runs.status(), absl::OkStatus()) << cluster_->Diagnose(job_);
  }

  CommandResult Trace(const std::string& flags) {
    return Muster(absl::StrCat("trace ", job_, " --coordinator ", cluster_->coordinator_address(),
                               " --force --out ", Path(), " ", flags));
  }
  static std::string Path() { return ::testing::TempDir() + "/trace.json"; }

  static ProcessCluster* cluster_;
  std::string job_;
};

ProcessCluster* TraceTest::cluster_ = nullptr;

TEST_F(TraceTest, ShowsAJobOnServers) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_checkpoint()->set_every_steps(10);
  Start(spec);
  const CommandResult result = Trace("--steps 20");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("clocks right within"));
  const TraceFile file(Path());
  const uint64_t first = file.about()["first_step"], end = file.about()["end_step"];
  EXPECT_EQ(end - first, 20u);
  EXPECT_EQ(file.Processes().size(), 4u) << file.about();
  EXPECT_TRUE(file.about()["missing"].empty()) << file.about();
  EXPECT_TRUE(file.about()["uncompared_clocks"].empty()) << file.about();
  EXPECT_TRUE(file.about()["events_left_out"].empty()) << file.about();
  file.ExpectNested();
  for (const char* slot : {"slot 0", "slot 1"}) {
    file.ExpectSteps(slot, first, end);
    EXPECT_THAT(file.NamesOf(slot),
                IsSupersetOf({"load examples", "acquire 0", "forward 0", "check loss",
                              "gradients ready 0", "end step", "wait"}));
  }
  EXPECT_THAT(file.NamesOf("server"),
              IsSupersetOf({"batch", "take push", "take close", "serve pull", "optimizer"}));
  // All clocks agree that in every step no server takes a push before a task sends it.
  double error = 0;
  for (const auto& [process, us] : file.about()["clock_error_us"].items()) {
    error = std::max(error, us.get<double>());
  }
  EXPECT_GT(error, 0);
  std::map<uint64_t, double> sent, taken;
  for (const Event& event : file.events()) {
    if (absl::StartsWith(event.name, "push ")) {
      sent.try_emplace(event.step, event.begin);
      sent[event.step] = std::min(sent[event.step], event.begin);
    } else if (event.name == "take push") {
      taken.try_emplace(event.step, event.begin);
      taken[event.step] = std::min(taken[event.step], event.begin);
    }
  }
  // A task that began late has sent before, unseen.
  std::map<uint64_t, int> traced;
  for (const Event& event : file.events()) traced[event.step] += event.name == "step";
  for (const auto& [step, begin] : sent) {
    if (traced[step] == 2 && taken.contains(step)) {
      EXPECT_GE(taken[step], begin - 2 * error) << step;
    }
  }
  EXPECT_EQ(traced[end - 1], 2);
  EXPECT_TRUE(sent.contains(end - 1));
}

TEST_F(TraceTest, ShowsAJobThatTrainsByAllReduce) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  spec.mutable_update()->set_sparse(v1::UpdateSpec::ALL_REDUCE);
  Start(spec);
  CommandResult result = Trace("--steps 10");
  // One of the tasks may have made the steps before it knew of them.
  while (result.exit_code == 0 && TraceFile(Path()).Processes().size() < 2) {
    result = Trace("--steps 10");
  }
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const TraceFile file(Path());
  const uint64_t first = file.about()["first_step"], end = file.about()["end_step"];
  EXPECT_EQ(end - first, 10u);
  EXPECT_EQ(file.Processes().size(), 2u) << file.about();
  EXPECT_TRUE(file.about()["missing"].empty()) << file.about();
  file.ExpectNested();
  for (const char* slot : {"slot 0", "slot 1"}) {
    file.ExpectSteps(slot, first, end);
    EXPECT_THAT(file.NamesOf(slot), IsSupersetOf({"forward 0", "gradients ready 0", "bucket 0",
                                                  "wait", "optimizer", "end step"}));
  }
  // Both ranks are in a call at the same time.
  double error = 0;
  for (const auto& [process, us] : file.about()["clock_error_us"].items()) {
    error += us.get<double>();
  }
  std::map<uint64_t, std::vector<Event>> calls;
  for (const Event& event : file.events()) {
    if (event.name == "bucket 0") calls[event.step].push_back(event);
  }
  EXPECT_EQ(calls[end - 1].size(), 2u);
  for (const auto& [step, both] : calls) {
    if (both.size() != 2) continue;  // One rank began late.
    EXPECT_LE(both[0].begin, both[1].end + error) << step;
    EXPECT_LE(both[1].begin, both[0].end + error) << step;
  }
}

TEST_F(TraceTest, NamesATaskThatStandsStill) {
  Start(SmallJob());
  const std::vector<pid_t> tasks = cluster_->ChildrenOf("worker-1");
  ASSERT_EQ(tasks.size(), 1u);
  ASSERT_EQ(kill(tasks[0], SIGSTOP), 0);
  const CommandResult result = Trace("--steps 5 --wait 2");
  ASSERT_EQ(kill(tasks[0], SIGCONT), 0);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output,
              HasSubstr("(worker-1) did not send all of its events: the time of 2s"));
  const TraceFile file(Path());
  EXPECT_FALSE(file.about()["missing"].empty());
  file.ExpectNested();
}

TEST_F(TraceTest, SurvivesALostTask) {
  Start(SmallJob());
  v1::TraceJobRequest request;
  request.set_job_id(job_);
  request.set_steps(100);
  request.set_wait_ms(60'000);
  bool killed = false;
  std::set<std::pair<uint32_t, uint64_t>> sources;
  v1::TraceChunk last;
  ASSERT_EQ(cluster_->jobs().Trace(
                request,
                [&](const v1::TraceChunk& chunk) {
                  if (!std::exchange(killed, true)) {
                    for (const pid_t task : cluster_->ChildrenOf("worker-1")) {
                      kill(task, SIGKILL);
                    }
                  }
                  if (chunk.has_piece() && chunk.source().server_id().empty()) {
                    sources.insert({chunk.source().slot(), chunk.source().incarnation()});
                  }
                  last = chunk;
                  return absl::OkStatus();
                }),
            absl::OkStatus());
  // Its replacement records the steps.
  EXPECT_TRUE(last.missing().empty()) << last.DebugString();
  EXPECT_EQ(last.ended_because(), "");
  std::set<uint32_t> slots;
  uint64_t replaced = 0;
  for (const auto& [slot, incarnation] : sources) {
    slots.insert(slot);
    replaced += incarnation > 1;
  }
  EXPECT_EQ(slots.size(), 2u);
  EXPECT_EQ(replaced, 1u);
}

TEST_F(TraceTest, OneAtATimeAndOverOnceItsCallerGoes) {
  Start(SmallJob());
  v1::TraceJobRequest request;
  request.set_job_id(job_);
  request.set_steps(100);
  CommandResult refused;
  const absl::Status ended = cluster_->jobs().Trace(request, [&](const v1::TraceChunk&) {
    refused = Trace("--steps 5");
    return absl::CancelledError("the caller goes");
  });
  EXPECT_EQ(ended, absl::CancelledError("the caller goes"));
  EXPECT_EQ(refused.exit_code, 1) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr(absl::StrCat("job ", job_, " is being traced")));
  // The coordinator may learn a moment later that the caller is gone.
  CommandResult again;
  do {
    again = Trace("--steps 5");
  } while (absl::StrContains(again.output, "is being traced"));
  EXPECT_EQ(again.exit_code, 0) << again.output;
}

TEST_F(TraceTest, RefusesWhatItCannotDo) {
  const std::string coordinator = " --coordinator " + cluster_->coordinator_address();
  EXPECT_EQ(Muster("trace nobody" + coordinator).exit_code, 2);
  EXPECT_EQ(Muster("trace nobody --steps 101" + coordinator).exit_code, 2);
  EXPECT_EQ(Muster("trace nobody --steps 0" + coordinator).exit_code, 2);
}

TEST_F(TraceTest, TopPrintsOneFrame) {
  Start(SmallJob());
  const CommandResult top = Muster("top --coordinator " + cluster_->coordinator_address());
  EXPECT_EQ(top.exit_code, 0) << top.output;
  EXPECT_THAT(top.output, HasSubstr("1 running, 0 waiting; 2 of 2 slots used"));
  for (const char* daemon : {"server-0", "server-1", "worker-0", "worker-1"}) {
    EXPECT_THAT(top.output, HasSubstr(daemon));
  }
  EXPECT_THAT(top.output, HasSubstr("EXAMPLES/S"));
  EXPECT_THAT(top.output, HasSubstr("COMPUTE"));
  EXPECT_FALSE(absl::StrContains(top.output, "\x1b"));
}

}  // namespace
}  // namespace muster

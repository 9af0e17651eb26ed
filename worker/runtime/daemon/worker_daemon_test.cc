#include "worker/runtime/daemon/worker_daemon.h"

#include <deque>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/program/program_proof.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

class NoLogs final : public LogSink {
 public:
  absl::Status Append(const std::string&, uint32_t, const std::string&) override {
    return absl::OkStatus();
  }
};

// A coordinator that hands out the orders it is told to, and remembers heartbeats.
class FakeCluster final : public ClusterClient {
 public:
  absl::StatusOr<Registration> Register(const DaemonIdentity& daemon, absl::Duration) override {
    absl::MutexLock lock(&mutex_);
    ++registrations_;
    if (!refusal_.ok()) return refusal_;
    return Registration{registrations_, absl::Minutes(10)};
  }

  absl::StatusOr<v1::HeartbeatReply> Heartbeat(const v1::HeartbeatRequest& request,
                                               absl::Duration) override {
    absl::MutexLock lock(&mutex_);
    last_ = request;
    ++heartbeats_;
    if (request.leaving()) left_ = true;
    auto wake = [this, seen = request.seen_orders_version()]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(
                    mutex_) { return interrupted_ || orders_.orders_version() != seen; };
    if (!request.leaving()) mutex_.Await(absl::Condition(&wake));
    if (broken_) return absl::UnavailableError("the coordinator is gone");
    if (std::exchange(interrupted_, false)) return absl::CancelledError("interrupted");
    return orders_;
  }

  void Interrupt() override {
    absl::MutexLock lock(&mutex_);
    interrupted_ = true;
  }

  void Order(const std::vector<int>& slots) {
    absl::MutexLock lock(&mutex_);
    orders_.set_orders_version(orders_.orders_version() + 1);
    orders_.clear_tasks();
    for (int slot : slots) {
      v1::TaskOrder* order = orders_.add_tasks();
      order->set_job_id("job");
      order->set_slot(slot);
    }
  }
  void Refuse(absl::Status status) {
    absl::MutexLock lock(&mutex_);
    refusal_ = std::move(status);
  }
  // Makes all heartbeats fail.
  void Break() {
    absl::MutexLock lock(&mutex_);
    broken_ = true;
    interrupted_ = true;
  }
  bool left() const {
    absl::MutexLock lock(&mutex_);
    return left_;
  }
  // Waits for a heartbeat with tasks "slot STATE" in this order.
  v1::HeartbeatRequest AwaitReport(const std::vector<std::string>& tasks) {
    absl::MutexLock lock(&mutex_);
    auto reported = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      std::vector<std::string> lines;
      for (const auto& task : last_.tasks()) {
        lines.push_back(absl::StrCat(task.slot(), " ", v1::TaskReport::State_Name(task.state())));
      }
      return heartbeats_ > 0 && lines == tasks;
    };
    mutex_.Await(absl::Condition(&reported));
    return last_;
  }

  v1::HeartbeatRequest AwaitNotice() {
    absl::MutexLock lock(&mutex_);
    auto told = [&]()
                    ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return last_.leaves_within_ms() > 0; };
    mutex_.Await(absl::Condition(&told));
    return last_;
  }

 private:
  mutable absl::Mutex mutex_;
  uint64_t registrations_ ABSL_GUARDED_BY(mutex_) = 0;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  int heartbeats_ ABSL_GUARDED_BY(mutex_) = 0;
  bool interrupted_ ABSL_GUARDED_BY(mutex_) = false;
  bool left_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);
  v1::HeartbeatReply orders_ ABSL_GUARDED_BY(mutex_);
  v1::HeartbeatRequest last_ ABSL_GUARDED_BY(mutex_);
};

// Tasks that run until they are killed or told to end.
class FakeTasks {
 public:
  TaskStarter Starter() {
    return [this](const v1::TaskOrder& order, std::function<void(const v1::TaskReport&)> ended)
               -> absl::StatusOr<std::unique_ptr<RunningTask>> {
      absl::MutexLock lock(&mutex_);
      ended_[order.slot()] = std::move(ended);
      return std::make_unique<Task>(*this, order.slot());
    };
  }

  void End(uint32_t slot, v1::TaskReport::State state) {
    std::function<void(const v1::TaskReport&)> ended;
    {
      absl::MutexLock lock(&mutex_);
      auto it = ended_.find(slot);
      if (it == ended_.end()) return;
      ended = std::move(it->second);
      ended_.erase(it);
    }
    v1::TaskReport report;
    report.set_job_id("job");
    report.set_slot(slot);
    report.set_state(state);
    ended(report);
  }

  int running() const {
    absl::MutexLock lock(&mutex_);
    return ended_.size();
  }

 private:
  struct Task final : RunningTask {
    Task(FakeTasks& tasks, uint32_t slot) : tasks(tasks), slot(slot) {}
    ~Task() override { tasks.End(slot, v1::TaskReport::DIED); }
    void Kill() override {}

    FakeTasks& tasks;
    const uint32_t slot;
  };

  mutable absl::Mutex mutex_;
  std::map<uint32_t, std::function<void(const v1::TaskReport&)>> ended_ ABSL_GUARDED_BY(mutex_);
};

class WorkerDaemonTest : public ::testing::Test {
 protected:
  std::unique_ptr<WorkerDaemon> MakeDaemon() {
    WorkerDaemonOptions options;
    options.identity.kind = DaemonIdentity::Kind::kWorker;
    options.identity.id = "w0";
    options.identity.slots = 2;
    options.log = [](absl::string_view) {};
    options.refused = [this](const absl::Status& status) {
      absl::MutexLock lock(&mutex_);
      refused_ = status;
    };
    return std::make_unique<WorkerDaemon>(cluster_, tasks_.Starter(), std::move(options), clock_,
                                          waiter_);
  }

  absl::Status AwaitRefusal() {
    absl::MutexLock lock(&mutex_);
    auto refused = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !refused_.ok(); };
    mutex_.Await(absl::Condition(&refused));
    return refused_;
  }

  RealClock clock_;
  RealWaiter waiter_;
  FakeCluster cluster_;
  FakeTasks tasks_;
  absl::Mutex mutex_;
  absl::Status refused_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(WorkerDaemonTest, RunsWhatIsOrderedAndReportsItsEnd) {
  auto daemon = MakeDaemon();
  cluster_.Order({0, 1});
  cluster_.AwaitReport({"0 RUNNING", "1 RUNNING"});
  EXPECT_EQ(tasks_.running(), 2);
  tasks_.End(1, v1::TaskReport::ENDED);
  v1::HeartbeatRequest heartbeat = cluster_.AwaitReport({"0 RUNNING", "1 ENDED"});
  std::set<std::string> metrics;
  for (const v1::MetricFamily& family : heartbeat.metrics()) {
    metrics.insert(absl::StrCat(family.name(), " ", v1::MetricFamily::Type_Name(family.type()), " ",
                                family.metrics(0).value()));
  }
  EXPECT_EQ(metrics,
            (std::set<std::string>{"muster_build_info GAUGE 1", "muster_worker_tasks GAUGE 1",
                                   "muster_worker_tasks_started_total COUNTER 2",
                                   "muster_worker_tasks_ended_total COUNTER 1"}));
  cluster_.Order({0});
  cluster_.AwaitReport({"0 RUNNING"});
}

TEST_F(WorkerDaemonTest, StopEndsTheTasksAndLeaves) {
  auto daemon = MakeDaemon();
  cluster_.Order({0, 1});
  cluster_.AwaitReport({"0 RUNNING", "1 RUNNING"});
  daemon->Stop(absl::Seconds(30));
  EXPECT_TRUE(cluster_.left());
  EXPECT_EQ(tasks_.running(), 0);
  daemon->Stop(absl::Seconds(30));
}

TEST_F(WorkerDaemonTest, AfterANoticeItStaysUntilItsTasksHaveLeft) {
  auto daemon = MakeDaemon();
  cluster_.Order({0, 1});
  EXPECT_EQ(cluster_.AwaitReport({"0 RUNNING", "1 RUNNING"}).leaves_within_ms(), 0u);
  std::string left;
  daemon->GiveNotice(absl::Minutes(5), [&](absl::string_view why) { left = std::string(why); });
  const uint32_t within = cluster_.AwaitNotice().leaves_within_ms();
  EXPECT_GT(within, 0u);
  EXPECT_LE(within, 300000u);
  // One is killed, since its order is withdrawn; the other ends by itself, and is forgotten.
  cluster_.Order({1});
  cluster_.AwaitReport({"0 RUNNING", "1 RUNNING"});
  tasks_.End(0, v1::TaskReport::DIED);
  tasks_.End(1, v1::TaskReport::ENDED);
  cluster_.AwaitReport({"1 ENDED"});
  EXPECT_EQ(left, "") << "the coordinator has not taken the end";
  cluster_.Order({});
  cluster_.AwaitReport({});
  EXPECT_EQ(left, "no tasks are left here");
}

TEST_F(WorkerDaemonTest, WithoutTasksANoticeEndsItAtOnce) {
  auto daemon = MakeDaemon();
  cluster_.Order({});
  cluster_.AwaitReport({});
  std::string left;
  daemon->GiveNotice(absl::Minutes(5), [&](absl::string_view why) { left = std::string(why); });
  EXPECT_EQ(left, "no tasks are left here");
}

TEST_F(WorkerDaemonTest, NobodyToHandOverToEndsTheWait) {
  auto daemon = MakeDaemon();
  cluster_.Order({0});
  cluster_.AwaitReport({"0 RUNNING"});
  absl::Notification told;
  daemon->GiveNotice(absl::Minutes(5), [&](absl::string_view why) {
    EXPECT_EQ(why, "the coordinator does not answer");
    told.Notify();
  });
  cluster_.Break();
  told.WaitForNotification();
}

TEST(ProcessTaskStarterTest, ProgramsAreRunOnlyOnOrdersOfOneWhoKnowsTheToken) {
  NoLogs sink;
  LogShipper logs(sink, {});
  const TaskStarter start = ProcessTaskStarter(
      {.allow_programs = true, .worker_id = "w0", .program_token = "the token of the test"}, logs);
  v1::TaskOrder order;
  order.set_worker_id("w0");
  order.mutable_spec()->mutable_model()->mutable_program()->add_command("true");
  v1::TaskOrder of_another = order;
  of_another.set_worker_id("w1");
  of_another.set_proof(ProofOfOrder(of_another, "the token of the test"));
  v1::TaskOrder guessed = order;
  guessed.set_proof(ProofOfOrder(order, "a token that is guessed"));
  for (const v1::TaskOrder& wrong : {order, of_another, guessed}) {
    const auto task = start(wrong, [](const v1::TaskReport&) {});
    EXPECT_EQ(task.status().code(), absl::StatusCode::kPermissionDenied);
  }
}

TEST_F(WorkerDaemonTest, ARefusedDaemonSaysSo) {
  cluster_.Refuse(absl::FailedPreconditionError("protocol version 2 is not spoken here"));
  auto daemon = MakeDaemon();
  EXPECT_EQ(AwaitRefusal().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace muster

#include "worker/runtime/daemon/task_table.h"

#include <set>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class TaskTableTest : public ::testing::Test {
 protected:
  struct FakeTask final : RunningTask {
    FakeTask(TaskTableTest& test, int number) : test(test), number(number) {}
    ~FakeTask() override { test.End(number, v1::TaskReport::DIED); }
    void Kill() override { test.killed_.insert(number); }

    TaskTableTest& test;
    const int number;
  };

  TaskTableTest()
      : table_(
            [this](const v1::TaskOrder& order, std::function<void(const v1::TaskReport&)> ended)
                -> absl::StatusOr<std::unique_ptr<RunningTask>> {
              started_.push_back(Name(order));
              devices_.push_back(order.device());
              if (!start_error_.ok()) return start_error_;
              v1::TaskReport report;
              report.set_job_id(order.job_id());
              report.set_generation(order.generation());
              report.set_slot(order.slot());
              report.set_incarnation(order.incarnation());
              running_.push_back({report, std::move(ended), false});
              return std::make_unique<FakeTask>(*this, running_.size() - 1);
            },
            /*devices=*/{1, 3}, [this] { ++changes_; }) {}

  struct Running {
    v1::TaskReport report;
    std::function<void(const v1::TaskReport&)> ended;
    bool told;
  };

  void End(int number, v1::TaskReport::State state, int code = 0) {
    Running& running = running_[number];
    if (std::exchange(running.told, true)) return;
    running.report.set_state(state);
    running.report.set_code(code);
    running.ended(running.report);
  }

  template <typename Message>
  static std::string Name(const Message& task) {
    return absl::StrCat(task.job_id(), "/", task.generation(), "/", task.slot(), "/",
                        task.incarnation());
  }

  static v1::HeartbeatReply Orders(const std::vector<std::pair<int, int>>& slots_and_incarnations) {
    v1::HeartbeatReply reply;
    for (auto [slot, incarnation] : slots_and_incarnations) {
      v1::TaskOrder* order = reply.add_tasks();
      order->set_job_id("j");
      order->set_generation(1);
      order->set_slot(slot);
      order->set_incarnation(incarnation);
    }
    return reply;
  }

  std::vector<std::string> Reported() const {
    v1::HeartbeatRequest heartbeat;
    table_.Report(heartbeat);
    std::vector<std::string> lines;
    for (const auto& task : heartbeat.tasks()) {
      lines.push_back(absl::StrCat(Name(task), " ", v1::TaskReport::State_Name(task.state())));
    }
    return lines;
  }

  static v1::HeartbeatReply OnDevices(v1::HeartbeatReply orders) {
    for (v1::TaskOrder& order : *orders.mutable_tasks()) {
      order.mutable_spec()->mutable_compute()->set_device(v1::ComputeSpec::CUDA);
    }
    return orders;
  }

  std::vector<std::string> started_;
  // Of those started.
  std::vector<uint32_t> devices_;
  absl::Status start_error_;
  std::vector<Running> running_;
  std::set<int> killed_;
  int changes_ = 0;
  TaskTable table_;
};

TEST_F(TaskTableTest, StartsWhatIsOrderedOnce) {
  table_.Reconcile(Orders({{0, 1}, {1, 1}}));
  table_.Reconcile(Orders({{0, 1}, {1, 1}}));
  EXPECT_THAT(started_, ElementsAre("j/1/0/1", "j/1/1/1"));
  EXPECT_THAT(Reported(), ElementsAre("j/1/0/1 RUNNING", "j/1/1/1 RUNNING"));
  EXPECT_EQ(table_.running(), 2);
}

TEST_F(TaskTableTest, AnEndedTaskIsReportedUntilForgottenAndNotRestarted) {
  table_.Reconcile(Orders({{0, 1}}));
  End(0, v1::TaskReport::ENDED, 3);
  EXPECT_EQ(changes_, 1);
  EXPECT_THAT(Reported(), ElementsAre("j/1/0/1 ENDED"));
  table_.Reconcile(Orders({{0, 1}}));
  EXPECT_THAT(Reported(), ElementsAre("j/1/0/1 ENDED"));
  EXPECT_EQ(started_.size(), 1);
  table_.Reconcile(Orders({}));
  EXPECT_THAT(Reported(), IsEmpty());
}

TEST_F(TaskTableTest, StopsWhatIsNotOrderedAndReportsItUntilItIsGone) {
  table_.Reconcile(Orders({{0, 1}, {1, 1}}));
  table_.Reconcile(Orders({{1, 1}}));
  EXPECT_THAT(killed_, ElementsAre(0));
  EXPECT_THAT(Reported(), ElementsAre("j/1/0/1 RUNNING", "j/1/1/1 RUNNING"));
  End(0, v1::TaskReport::DIED);
  EXPECT_THAT(Reported(), ElementsAre("j/1/1/1 RUNNING"));
  EXPECT_EQ(table_.running(), 1);
}

TEST_F(TaskTableTest, AHigherIncarnationIsAnotherTask) {
  table_.Reconcile(Orders({{0, 1}}));
  End(0, v1::TaskReport::DIED);
  table_.Reconcile(Orders({{0, 2}}));
  EXPECT_THAT(started_, ElementsAre("j/1/0/1", "j/1/0/2"));
  EXPECT_THAT(Reported(), ElementsAre("j/1/0/2 RUNNING"));
}

TEST_F(TaskTableTest, AStoppedTaskOrderedAgainKeepsItsReport) {
  table_.Reconcile(Orders({{0, 1}}));
  table_.Reconcile(Orders({}));
  table_.Reconcile(Orders({{0, 1}}));
  EXPECT_EQ(started_.size(), 1);
  End(0, v1::TaskReport::DIED);
  EXPECT_THAT(Reported(), ElementsAre("j/1/0/1 DIED"));
}

TEST_F(TaskTableTest, ATaskThatCannotBeStartedHasDied) {
  start_error_ = absl::InternalError("no processes left");
  table_.Reconcile(Orders({{0, 1}}));
  v1::HeartbeatRequest heartbeat;
  table_.Report(heartbeat);
  ASSERT_EQ(heartbeat.tasks_size(), 1);
  EXPECT_EQ(heartbeat.tasks(0).state(), v1::TaskReport::DIED);
  EXPECT_EQ(heartbeat.tasks(0).message(), "no processes left");
  EXPECT_EQ(changes_, 1);
}

TEST_F(TaskTableTest, TasksOnDevicesHaveOneEachAndWaitForThoseThatEnd) {
  table_.Reconcile(OnDevices(Orders({{0, 1}, {1, 1}})));
  EXPECT_THAT(devices_, ElementsAre(1, 3));
  // Slot 0 is to start anew, and its former task takes its time to go.
  table_.Reconcile(OnDevices(Orders({{0, 2}, {1, 1}})));
  EXPECT_THAT(killed_, ElementsAre(0));
  EXPECT_EQ(started_.size(), 2);
  EXPECT_THAT(Reported(), ElementsAre("j/1/0/1 RUNNING", "j/1/0/2 RUNNING", "j/1/1/1 RUNNING"));
  End(0, v1::TaskReport::DIED);
  EXPECT_THAT(started_, ElementsAre("j/1/0/1", "j/1/1/1", "j/1/0/2"));
  EXPECT_THAT(devices_, ElementsAre(1, 3, 1));
}

TEST_F(TaskTableTest, AReplacedTaskGetsAnotherDeviceIfThereIsOne) {
  table_.Reconcile(OnDevices(Orders({{0, 1}})));
  for (int task = 0; task < 3; ++task) {
    End(task, v1::TaskReport::ENDED, static_cast<int>(absl::StatusCode::kCancelled));
    table_.Reconcile(OnDevices(Orders({{0, task + 2}})));
  }
  EXPECT_THAT(devices_, ElementsAre(1, 3, 1, 3));
}

TEST_F(TaskTableTest, ATaskThatWaitsForADeviceIsForgottenWithItsOrder) {
  table_.Reconcile(OnDevices(Orders({{0, 1}, {1, 1}, {2, 1}})));
  EXPECT_EQ(started_.size(), 2);
  table_.Reconcile(OnDevices(Orders({{0, 1}, {1, 1}})));
  EXPECT_THAT(Reported(), ElementsAre("j/1/0/1 RUNNING", "j/1/1/1 RUNNING"));
  End(0, v1::TaskReport::ENDED);
  EXPECT_EQ(started_.size(), 2);
}

TEST_F(TaskTableTest, StopAllLeavesNothing) {
  table_.Reconcile(Orders({{0, 1}, {1, 1}}));
  table_.StopAll();
  EXPECT_THAT(killed_, ElementsAre(0, 1));
  EXPECT_THAT(Reported(), IsEmpty());
  table_.Reconcile(Orders({{0, 2}}));
  EXPECT_EQ(started_.size(), 2) << "nothing is started any more";
  EXPECT_EQ(table_.running(), 0);
}

}  // namespace
}  // namespace muster

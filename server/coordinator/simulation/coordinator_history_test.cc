// What a job's history shows, whatever happens to tasks, servers and the coordinator. A step's loss
// is the generation that made it.
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/job/test_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/metrics.pb.h"
#include "proto/task_service.pb.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/history/job_history.h"
#include "server/coordinator/simulation/simulated_cluster.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

// Time after which all that was shown is stored.
constexpr absl::Duration kStored = absl::Seconds(6);

using Values = std::vector<std::pair<uint64_t, double>>;

class HistoryScenarioTest : public ::testing::Test {
 protected:
  HistoryScenarioTest() {
    cluster_.AddServer("s0");
    cluster_.AddServer("s1");
    cluster_.AddWorker("w0");
    cluster_.AddWorker("w1");
  }

  std::string Running(v1::JobSpec spec = SmallJob()) {
    spec.mutable_checkpoint()->set_every_steps(2);
    const std::string job = *cluster_.Submit(spec);
    cluster_.MeetAll(job);
    EXPECT_EQ(cluster_.State(job), v1::RUNNING);
    return job;
  }

  void Train(const std::string& job, uint64_t first, uint64_t last) {
    for (uint64_t clock = first; clock <= last; ++clock) cluster_.ProgressAll(job, clock);
    cluster_.Pass(absl::Seconds(1));
  }

  const JobTable& table() { return cluster_.coordinator().table(); }

  // The history of a job, wherever it is.
  const JobHistory& History(const std::string& job) {
    const Job& found = *table().Find(job);
    if (found.history != nullptr) return found.history->history();
    read_ = *table().ReadHistory(found);
    return read_->history();
  }

  Values Of(const std::string& job, absl::string_view name) {
    Values values;
    for (const JobHistory::Named& named : History(job).series()) {
      if (named.name != name) continue;
      for (const SeriesPoint& point : named.series.points()) {
        EXPECT_EQ(point.values, 1);
        values.push_back({point.last_step, point.last});
      }
    }
    return values;
  }

  Values Losses(const std::string& job) { return Of(job, "train/loss"); }

  // Makes a server forget all, so that the job goes back.
  void LoseServer() {
    cluster_.RestartDaemon("s0");
    cluster_.Pass(kLease);
  }

  SimulatedCluster cluster_;
  std::unique_ptr<StoredHistory> read_;
};

TEST_F(HistoryScenarioTest, ShowsStepsThatAllSlotsHaveMade) {
  const std::string job = Running();
  Train(job, 1, 2);
  EXPECT_THAT(Losses(job), ElementsAre(Pair(1, 1), Pair(2, 1)));
  cluster_.Progress(*cluster_.Order(job, 0), 3).IgnoreError();
  cluster_.Pass(absl::Seconds(1));
  EXPECT_EQ(Losses(job).size(), 2);
  cluster_.Progress(*cluster_.Order(job, 1), 3).IgnoreError();
  cluster_.Pass(absl::Seconds(1));
  EXPECT_EQ(Losses(job).size(), 3);
  EXPECT_THAT(Of(job, "slot/1/memory_bytes").size(), 3);
}

TEST_F(HistoryScenarioTest, ARestartKeepsWhatIsSomeSecondsOld) {
  const std::string job = Running();
  Train(job, 1, 2);
  cluster_.Pass(kStored);
  Train(job, 3, 3);
  EXPECT_EQ(Losses(job).size(), 3);
  cluster_.RestartCoordinator();
  EXPECT_THAT(Losses(job), ElementsAre(Pair(1, 1), Pair(2, 1)));
  // A report whose answer was lost comes again, with what followed.
  cluster_.Pass(absl::Seconds(1));
  Train(job, 2, 4);
  EXPECT_THAT(Losses(job), ElementsAre(Pair(1, 1), Pair(2, 1), Pair(3, 1), Pair(4, 1)));
}

TEST_F(HistoryScenarioTest, AnEventTellsOfStepsWithoutTheLossOfALostTask) {
  const std::string job = Running();
  Train(job, 1, 2);
  for (uint64_t clock : {3, 4}) cluster_.Progress(*cluster_.Order(job, 0), clock).IgnoreError();
  // Slot 1's task has closed step 3, which the servers have, but dies before it reports it.
  cluster_.Die(*cluster_.Order(job, 1));
  cluster_.Pass(absl::Seconds(1));
  EXPECT_TRUE(cluster_.Rendezvous(*cluster_.Order(job, 1)).status().ok());
  cluster_.Progress(*cluster_.Order(job, 1), 4).IgnoreError();
  cluster_.Pass(absl::Seconds(1));
  EXPECT_EQ(Losses(job).size(), 4);
  EXPECT_TRUE(cluster_.HasEvent(job, "the history's train/loss of step 3 is without slot 1"));
}

TEST_F(HistoryScenarioTest, AnEventTellsOfStepsThatARestartLost) {
  const std::string job = Running();
  Train(job, 1, 2);
  cluster_.Pass(kStored);
  Train(job, 3, 5);
  cluster_.RestartCoordinator();
  cluster_.Pass(absl::Seconds(1));
  Train(job, 6, 6);
  EXPECT_THAT(Losses(job), ElementsAre(Pair(1, 1), Pair(2, 1), Pair(6, 1)));
  EXPECT_TRUE(cluster_.HasEvent(job, "the history has no train/loss of steps 3 to 5"));
}

TEST_F(HistoryScenarioTest, ANewTaskOfASlotRepeatsStepsThatAreNotShownTwice) {
  const std::string job = Running();
  Train(job, 1, 3);
  cluster_.Die(*cluster_.Order(job, 1));
  cluster_.Pass(absl::Seconds(1));
  EXPECT_TRUE(cluster_.Rendezvous(*cluster_.Order(job, 1)).status().ok());
  cluster_.Progress(*cluster_.Order(job, 1), 2).IgnoreError();
  Train(job, 3, 4);
  EXPECT_THAT(Losses(job), ElementsAre(Pair(1, 1), Pair(2, 1), Pair(3, 1), Pair(4, 1)));
}

TEST_F(HistoryScenarioTest, ARollBackCutsTheHistoryAndLeavesAMark) {
  const std::string job = Running();
  Train(job, 1, 2);
  EXPECT_TRUE(cluster_.Checkpoint(*cluster_.Order(job, 0), 2).status().ok());
  Train(job, 3, 5);
  EXPECT_EQ(Losses(job).size(), 5);
  const v1::TaskOrder old = *cluster_.Order(job, 0);
  LoseServer();
  EXPECT_THAT(Losses(job), ElementsAre(Pair(1, 1), Pair(2, 1)));
  ASSERT_EQ(History(job).marks().size(), 1);
  EXPECT_EQ(History(job).marks()[0].clock, 2);
  EXPECT_EQ(History(job).marks()[0].reached, 5);
  // The coordinator may restart at once, and an old task may report.
  cluster_.RestartCoordinator();
  cluster_.Pass(kLease);
  EXPECT_EQ(cluster_.Progress(old, 6).code(), absl::StatusCode::kAborted);
  EXPECT_THAT(Losses(job), ElementsAre(Pair(1, 1), Pair(2, 1)));
  cluster_.MeetAll(job);
  Train(job, 3, 4);
  EXPECT_THAT(Losses(job), ElementsAre(Pair(1, 1), Pair(2, 1), Pair(3, 2), Pair(4, 2)));
  EXPECT_EQ(History(job).marks().size(), 1);
  // Events tell at which step they happened.
  bool found = false;
  for (const v1::JobEvent& event : table().Find(job)->events) {
    found =
        found || (event.text() == table().Find(job)->record.last_rollback() && event.step() == 5);
  }
  EXPECT_TRUE(found);
}

TEST_F(HistoryScenarioTest, AfterARestartASlotThatIsDoneHoldsNobodyUp) {
  const std::string job = Running();
  Train(job, 1, 3);
  cluster_.Progress(*cluster_.Order(job, 0), 5).IgnoreError();
  cluster_.End(*cluster_.Order(job, 0));
  ASSERT_TRUE(cluster_.HasEvent(job, "slot 0 is done"));
  cluster_.Pass(kStored);
  cluster_.RestartCoordinator();
  cluster_.Pass(absl::Seconds(1));
  cluster_.Progress(*cluster_.Order(job, 1), 4).IgnoreError();
  cluster_.Pass(absl::Seconds(1));
  EXPECT_THAT(Losses(job), ElementsAre(Pair(1, 1), Pair(2, 1), Pair(3, 1), Pair(4, 1)));
}

TEST_F(HistoryScenarioTest, ACutThatCannotBeStoredDoesNotHappen) {
  const std::string job = Running();
  Train(job, 1, 5);
  cluster_.store.failing = true;
  LoseServer();
  EXPECT_EQ(Losses(job).size(), 5);
  cluster_.store.failing = false;
  cluster_.Pass(kLease);
  EXPECT_THAT(Losses(job), IsEmpty());
}

TEST_F(HistoryScenarioTest, AnEndedJobsHistoryIsReadFromTheStoreAndGoesWithTheJob) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_evaluation()->set_metric("accuracy");
  const std::string job = Running(spec);
  Train(job, 1, 9);
  cluster_.Finish(job);
  ASSERT_EQ(cluster_.State(job), v1::SUCCEEDED);
  EXPECT_EQ(table().Find(job)->history, nullptr);
  EXPECT_EQ(Losses(job).size(), 10);
  EXPECT_EQ(Of(job, "held_out/accuracy").size(), 1);
  cluster_.RestartCoordinator();
  EXPECT_EQ(Losses(job).size(), 10);
  Answer<v1::DeleteJobReply> deleted;
  cluster_.coordinator().jobs().Delete(job, deleted.call());
  cluster_.Run();
  ASSERT_TRUE(deleted.status().ok());
  for (StoreTable table :
       {StoreTable::kSeries, StoreTable::kHistoryChanges, StoreTable::kHistories}) {
    EXPECT_TRUE(cluster_.store
                    .Scan(table, "",
                          [](absl::string_view key, absl::string_view) {
                            return absl::InternalError(std::string(key));
                          })
                    .ok());
  }
}

TEST_F(HistoryScenarioTest, AnEvaluationThatOnlyTheRecordHoldsComesBack) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_evaluation()->set_metric("accuracy");
  spec.mutable_evaluation()->set_every_steps(1);
  const std::string job = Running(spec);
  Train(job, 1, 1);
  cluster_.EvaluateAll(job, 1);
  cluster_.RestartCoordinator();
  EXPECT_EQ(Of(job, "held_out/accuracy").size(), 1);
  EXPECT_EQ(Of(job, "held_out/loss").size(), 1);
}

TEST_F(HistoryScenarioTest, ByAllReduceTheSlotsOfTheRoundAreWaitedFor) {
  v1::JobSpec spec = AllReduceJob();
  spec.set_min_workers(1);
  const std::string job = Running(spec);
  Train(job, 1, 2);
  EXPECT_EQ(Losses(job).size(), 2);
  cluster_.Kill(cluster_.Status(job).tasks(1).worker_id());
  cluster_.Pass(absl::Seconds(20));
  auto round = cluster_.Rendezvous(*cluster_.Order(job, 0));
  cluster_.Pass(absl::Seconds(20));
  ASSERT_TRUE(round.status().ok());
  cluster_.Progress(*cluster_.Order(job, 0), 3).IgnoreError();
  cluster_.Pass(absl::Seconds(1));
  EXPECT_THAT(Losses(job), ElementsAre(Pair(1, 1), Pair(2, 1), Pair(3, 1)));
}

// What a reader makes of the chunks it gets.
class MetricsReader {
 public:
  MetricsReader(SimulatedCluster& cluster, v1::ReadMetricsRequest request)
      : cluster_(cluster), request_(std::move(request)) {}

  // Takes what there is. Returns false if the stream has ended.
  bool Read() {
    while (!ended_) {
      if (!asked_) {
        answer_ = {};
        cluster_.coordinator().metrics().Next(request_, std::move(position_), answer_.call());
        asked_ = true;
      }
      if (!answer_.came()) return true;
      asked_ = false;
      EXPECT_TRUE(answer_.status().ok()) << answer_.status();
      if (!answer_.status().ok()) return false;
      if (auto call = std::exchange(after_first, nullptr)) call();
      const MetricsRequests::Update& update = *answer_.get();
      position_ = update.position;
      ended_ = update.last;
      if (update.chunk.marks_size() > 0) marks = update.chunk.marks_size();
      for (const v1::Series& read : update.chunk.series()) {
        auto& points = series[read.name()];
        std::erase_if(points, [&](const v1::SeriesPoint& point) {
          return point.last_step() >= read.replaces_from();
        });
        points.insert(points.end(), read.points().begin(), read.points().end());
      }
    }
    return false;
  }

  std::vector<uint64_t> Steps(const std::string& name) {
    std::vector<uint64_t> steps;
    for (const v1::SeriesPoint& point : series[name]) steps.push_back(point.last_step());
    return steps;
  }

  std::map<std::string, std::vector<v1::SeriesPoint>> series;
  int marks = 0;
  // Called once, after the first chunk.
  std::function<void()> after_first;

 private:
  SimulatedCluster& cluster_;
  const v1::ReadMetricsRequest request_;
  MetricsRequests::Position position_;
  Answer<MetricsRequests::Update> answer_;
  bool asked_ = false;
  bool ended_ = false;
};

v1::ReadMetricsRequest ReadAll(const std::string& job, bool follow = false) {
  v1::ReadMetricsRequest request;
  request.set_job_id(job);
  request.set_follow(follow);
  return request;
}

TEST_F(HistoryScenarioTest, ReadersSelectSeriesStepsAndPoints) {
  const std::string job = Running();
  Train(job, 1, 8);
  MetricsReader all(cluster_, ReadAll(job));
  EXPECT_FALSE(all.Read());
  EXPECT_EQ(all.series.size(), 11);
  EXPECT_THAT(all.Steps("train/loss"), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));

  v1::ReadMetricsRequest some = ReadAll(job);
  some.add_series("slot/?/step");
  some.add_series("*/loss");
  some.set_from_step(5);
  some.set_max_points(2);
  MetricsReader few(cluster_, some);
  EXPECT_FALSE(few.Read());
  EXPECT_EQ(few.series.size(), 3);
  EXPECT_THAT(few.Steps("train/loss"), ElementsAre(6, 8));
  EXPECT_EQ(few.series["train/loss"][0].first_step(), 5);
  EXPECT_EQ(few.series["train/loss"][0].values(), 2);

  some.set_max_points(1);
  Answer<MetricsRequests::Update> refused;
  cluster_.coordinator().metrics().Next(some, {}, refused.call());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  Answer<MetricsRequests::Update> unknown;
  cluster_.coordinator().metrics().Next(ReadAll("j99-0000"), {}, unknown.call());
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kNotFound);
}

TEST_F(HistoryScenarioTest, AFollowerSeesNewStepsRollBacksAndTheEnd) {
  const std::string job = Running();
  MetricsReader reader(cluster_, ReadAll(job, /*follow=*/true));
  v1::ReadMetricsRequest joined = ReadAll(job, /*follow=*/true);
  joined.set_max_points(2);
  MetricsReader coarse(cluster_, joined);
  const auto read = [&] {
    cluster_.Pass(absl::Seconds(2));
    return reader.Read() && coarse.Read();
  };
  EXPECT_TRUE(read());
  Train(job, 1, 3);
  EXPECT_TRUE(cluster_.Checkpoint(*cluster_.Order(job, 0), 2).status().ok());
  EXPECT_TRUE(read());
  EXPECT_THAT(reader.Steps("train/loss"), ElementsAre(1, 2, 3));
  Train(job, 4, 5);
  EXPECT_TRUE(read());
  EXPECT_THAT(reader.Steps("train/loss"), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(coarse.Steps("train/loss"), ElementsAre(4, 5));
  LoseServer();
  EXPECT_TRUE(read());
  EXPECT_THAT(reader.Steps("train/loss"), ElementsAre(1, 2));
  EXPECT_THAT(coarse.Steps("train/loss"), ElementsAre(1, 2));
  EXPECT_EQ(reader.marks, 1);
  cluster_.MeetAll(job);
  Train(job, 3, 9);
  cluster_.Finish(job);
  ASSERT_EQ(cluster_.State(job), v1::SUCCEEDED);
  EXPECT_FALSE(read());
  EXPECT_FALSE(coarse.Read());
  EXPECT_THAT(reader.Steps("train/loss"), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  EXPECT_THAT(coarse.Steps("train/loss"), ElementsAre(8, 10));
}

// Adds 30 series of 2,000 steps, which are more than a chunk.
void AddLongHistory(JobHistory& history, uint64_t begin) {
  for (uint64_t step = begin; step < begin + 2000; ++step) {
    v1::ReportProgressRequest report;
    report.set_clock(step);
    for (int i = 0; i < 30; ++i) {
      v1::ReportedSeries& series = *report.add_series();
      series.set_name(absl::StrCat("train/", i));
      v1::SeriesPoint& point = *series.add_points();
      point.set_first_step(step);
      point.set_last_step(step);
      point.set_values(1);
      point.set_last(1);
    }
    history.AddReport(report, 5);
  }
}

TEST_F(HistoryScenarioTest, AReaderHasNoStepsThatWereCutWhileItRead) {
  const std::string job = Running();
  Train(job, 1, 2);
  EXPECT_TRUE(cluster_.Checkpoint(*cluster_.Order(job, 0), 2).status().ok());
  AddLongHistory(table().Find(job)->history->history(), 3);
  MetricsReader reader(cluster_, ReadAll(job));
  reader.after_first = [&] {
    EXPECT_EQ(reader.series.count("train/29"), 0) << "all came at once";
    LoseServer();
  };
  EXPECT_FALSE(reader.Read());
  EXPECT_EQ(reader.marks, 1);
  EXPECT_THAT(reader.Steps("train/loss"), ElementsAre(1, 2));
  for (const auto& [name, points] : reader.series) {
    EXPECT_TRUE(points.empty() || points.back().last_step() <= 2) << name;
  }
}

TEST_F(HistoryScenarioTest, ReadersOfAnEndedJobShareItsHistory) {
  const std::string job = Running();
  Train(job, 1, 9);
  cluster_.Finish(job);
  Answer<MetricsRequests::Update> one, other;
  cluster_.coordinator().metrics().Next(ReadAll(job), {}, one.call());
  cluster_.coordinator().metrics().Next(ReadAll(job), {}, other.call());
  ASSERT_TRUE(one.status().ok() && other.status().ok());
  EXPECT_NE(one.get()->position.ended, nullptr);
  EXPECT_EQ(one.get()->position.ended, other.get()->position.ended);
}

TEST_F(HistoryScenarioTest, ManySeriesAreComparedWithPatternsAFewAtATime) {
  cluster_.AddWorker("w2", 300);
  v1::JobSpec spec = SmallJob();
  spec.set_workers(300);
  spec.set_batch_size(300);
  spec.mutable_data()->mutable_synthetic_classification()->set_examples(10'000);
  const auto job = cluster_.Submit(spec);
  ASSERT_TRUE(job.ok()) << job.status();
  for (uint32_t slot = 0; slot < 300; ++slot) {
    v1::ReportProgressRequest report;
    report.mutable_task()->set_slot(slot);
    report.set_clock(1);
    report.set_steps(1);
    table().Find(*job)->history->history().AddReport(report, 5);
  }
  v1::ReadMetricsRequest request = ReadAll(*job);
  request.add_series("slot/299/step");
  MetricsReader reader(cluster_, request);
  EXPECT_TRUE(reader.Read());
  cluster_.Pass(absl::Seconds(1));
  EXPECT_FALSE(reader.Read());
  EXPECT_THAT(reader.Steps("slot/299/step"), ElementsAre(1));
}

TEST_F(HistoryScenarioTest, ReadersWhoAreGoneAndThoseOfAnEndingCoordinatorAreAnswered) {
  const std::string job = Running();
  Answer<MetricsRequests::Update> gone, waiting;
  cluster_.coordinator().metrics().Next(ReadAll(job, true), {}, gone.call());
  cluster_.coordinator().metrics().Next(ReadAll(job, true), {}, waiting.call());
  gone.Cancel();
  cluster_.Pass(absl::Seconds(1));
  EXPECT_EQ(gone.status().code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(waiting.came());
  cluster_.coordinator().Shutdown();
  EXPECT_EQ(waiting.status().code(), absl::StatusCode::kUnavailable);
}

// Steps, checkpoints, lost servers, dying tasks and restarts of the coordinator in random order. A
// step is always of the generation that the job went through it last in, and restarts lose no more
// than the last seconds.
TEST_F(HistoryScenarioTest, AnythingMayHappenAndNoStepIsOfAnOlderGeneration) {
  std::mt19937 random(1);
  v1::JobSpec spec = SmallJob();
  spec.mutable_stop()->set_steps(100'000);
  const std::string job = Running(spec);
  const auto meet = [&] {
    for (const v1::TaskOrder& order : cluster_.Orders(job)) cluster_.Rendezvous(order, 100'000);
  };
  uint64_t clock = 0, kept = 0;
  // Generation by first step that is of it.
  std::map<uint64_t, double> generations = {{1, 1}};
  for (int i = 0; i < 300; ++i) {
    const uint64_t what = random() % 20;
    if (what < 12) {
      cluster_.ProgressAll(job, ++clock);
      cluster_.Pass(absl::Seconds(1));
    } else if (what < 15) {
      if (clock == kept) continue;
      cluster_.Checkpoint(*cluster_.Order(job, 0), clock);
      kept = clock;
    } else if (what < 16) {
      LoseServer();
      meet();
      ASSERT_EQ(cluster_.State(job), v1::RUNNING);
      clock = kept;
      generations.erase(generations.upper_bound(kept), generations.end());
      generations[kept + 1] = static_cast<double>(cluster_.Order(job, 0)->generation());
    } else if (what < 18) {
      cluster_.RestartCoordinator();
      cluster_.Pass(absl::Seconds(1));
    } else {
      // A report comes again.
      if (clock > 0) cluster_.ProgressAll(job, clock - random() % clock);
    }
    for (const auto& [step, generation] : Losses(job)) {
      ASSERT_LE(step, clock);
      ASSERT_EQ(generation, std::prev(generations.upper_bound(step))->second) << step;
    }
  }
  EXPECT_GT(generations.size(), 1);
  cluster_.ProgressAll(job, ++clock);
  cluster_.Pass(absl::Seconds(1));
  EXPECT_EQ(Losses(job).back().first, clock);
}

}  // namespace
}  // namespace muster

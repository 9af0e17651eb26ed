#include "client/terminal/progress.h"

#include <cmath>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/terminal/task_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ProgressTest, RunningJobShowsEverything) {
  v1::JobStatus status;
  status.set_state(v1::RUNNING);
  v1::JobProgress& progress = *status.mutable_progress();
  progress.set_step(50);
  progress.set_total_steps(200);
  progress.set_loss(1.25);
  progress.set_examples_per_second(12345);
  progress.set_seconds_left(90);
  v1::EvaluationResult& evaluation = *status.add_evaluations();
  evaluation.set_metric("accuracy");
  evaluation.set_value(0.875);
  EXPECT_EQ(ProgressLine(status, 8),
            "RUNNING    [##......] step 50/200  loss 1.2500  accuracy 0.8750  12,345 examples/s  "
            "1m30s left");
}

TEST(ProgressTest, AJobThatSucceededSaysOfWhichStepItsLossIs) {
  v1::JobStatus status;
  status.set_state(v1::SUCCEEDED);
  status.mutable_progress()->set_step(200);
  status.mutable_progress()->set_total_steps(200);
  EXPECT_EQ(ProgressLine(status, 0), "SUCCEEDED  step 200/200  loss - (last step)");
  status.mutable_progress()->set_loss(NAN);
  EXPECT_EQ(ProgressLine(status, 0), "SUCCEEDED  step 200/200  loss nan (last step)");
  status.mutable_progress()->set_loss(0.5);
  EXPECT_EQ(ProgressLine(status, 0), "SUCCEEDED  step 200/200  loss 0.5000 (last step)");
  status.mutable_progress()->set_step(0);
  EXPECT_EQ(ProgressLine(status, 0), "SUCCEEDED  step 0/200") << "an evaluation trains nothing";
}

TEST(ProgressTest, AMetricWithoutAValueShowsNone) {
  v1::JobStatus status;
  status.set_state(v1::RUNNING);
  status.mutable_progress()->set_step(50);
  v1::EvaluationResult& evaluation = *status.add_evaluations();
  evaluation.set_metric("auc");
  evaluation.set_no_value("all are of one class");
  EXPECT_EQ(ProgressLine(status, 0), "RUNNING    step 50  auc none");
}

TEST(ProgressTest, AJobThatIsNotPlacedHasMadeNoSteps) {
  v1::JobStatus status;
  status.set_state(v1::PENDING);
  EXPECT_EQ(ProgressLine(status, 8), "PENDING    waiting to be placed");
}

TEST(ProgressTest, ATracebackIsShownApartFromTheMessage) {
  v1::JobStatus status;
  status.set_state(v1::FAILED);
  status.set_message("two lines\nof a message");
  EXPECT_EQ(MessageBeforeTraceback(status), status.message());
  EXPECT_EQ(TracebackText(status), "");
  status.set_message("it ended; the last that it printed:\nhello\nTraceback\n  oh");
  status.set_traceback("Traceback\n  oh\n\n");
  EXPECT_EQ(MessageBeforeTraceback(status), "it ended; the last that it printed:");
  EXPECT_EQ(TracebackText(status), "  Traceback\n    oh\n");
}

TEST(ProgressTest, EndedStates) {
  v1::JobStatus status;
  for (auto state : {v1::SUCCEEDED, v1::FAILED, v1::CANCELLED}) {
    status.set_state(state);
    EXPECT_TRUE(HasEnded(status));
  }
  status.set_state(v1::RECOVERING);
  EXPECT_FALSE(HasEnded(status));
}

// Returns a task whose steps took 200 ms, 150 of them computing.
v1::TaskStatus& AddTask(uint32_t slot, v1::JobStatus& job) {
  v1::TaskStatus& task = *job.add_tasks();
  task.set_slot(slot);
  task.set_worker_id("worker-0");
  task.set_state("RUNNING");
  task.set_step(123456);
  task.set_process_peak_bytes(uint64_t{3} << 30);
  v1::StepTimes& times = *task.mutable_last_steps();
  times.set_steps(40);
  times.set_training_seconds(8);
  times.set_compute_seconds(6);
  times.set_exposed_communication_seconds(1.5);
  times.set_waiting_seconds(0.5);
  return task;
}

TEST(TaskTableTest, ShowsWhereAStepsTimeGoesAndWhoIsSlow) {
  v1::JobStatus job;
  EXPECT_EQ(TaskTable(job), "");
  AddTask(0, job);
  v1::TaskStatus& slow = AddTask(10, job);
  slow.mutable_last_steps()->set_steps(38);
  slow.set_slow("computes 2.1 x as long\x1b[2J");
  v1::TaskStatus& starting = *job.add_tasks();
  starting.set_slot(11);
  starting.set_state("STARTING");
  EXPECT_EQ(TaskTable(job),
            "SLOT  WORKER    STATE       STEP  STEP TIME  COMPUTE  COMM.  DATA   MEMORY\n"
            "   0  worker-0  RUNNING   123456     200 ms      75%    19%    6%  3.0 GiB\n"
            "  10  worker-0  RUNNING   123456     211 ms      75%    19%    6%  3.0 GiB\n"
            "  11            STARTING       0          -        -      -     -        -\n"
            "times of each slot's last 38 to 40 steps\n"
            "slot 10 is slow: computes 2.1 x as long\\x1b[2J\n");
  for (const absl::string_view line : absl::StrSplit(TaskTable(job), '\n')) {
    EXPECT_LE(line.size(), 80u) << line;
  }
}

TEST(TaskTableTest, ShowsCoordinatesInAMeshOfSeveralAxes) {
  v1::JobStatus job;
  v1::TaskStatus& task = AddTask(2, job);
  v1::Coordinate& data = *task.add_coordinates();
  data.set_axis("data");
  data.set_position(1);
  EXPECT_THAT(TaskTable(job), Not(HasSubstr("COORDINATES"))) << "slots are data ranks";
  task.add_coordinates()->set_axis("tensor");
  EXPECT_THAT(TaskTable(job), HasSubstr("  COORDINATES\n"));
  EXPECT_THAT(TaskTable(job), HasSubstr("  data 1 tensor 0\n"));
}

TEST(TaskTableTest, OfAnEndedJobItShowsAllSteps) {
  v1::JobStatus job;
  v1::TaskStatus& task = AddTask(0, job);
  task.clear_last_steps();
  task.set_steps(1000);
  task.set_training_seconds(0.25);
  task.set_compute_seconds(0.25);
  EXPECT_EQ(TaskTable(job),
            "SLOT  WORKER    STATE      STEP  STEP TIME  COMPUTE  COMM.  DATA   MEMORY\n"
            "   0  worker-0  RUNNING  123456     250 us     100%     0%    0%  3.0 GiB\n"
            "times of all steps\n");
}

TEST(BestLineTest, OffersTheBestWhereItIsNotTheLast) {
  v1::JobStatus status;
  status.set_job_id("j1-8f");
  status.set_checkpoint_clock(100);
  EXPECT_EQ(BestLine(status), "");
  status.mutable_best()->set_clock(100);
  EXPECT_EQ(BestLine(status), "");
  status.mutable_best()->set_clock(40);
  status.mutable_best()->set_metric("accuracy");
  status.mutable_best()->set_value(0.9312);
  EXPECT_EQ(BestLine(status),
            "best at step 40: accuracy 0.9312; `muster export j1-8f@best --out FILE` writes its "
            "weights");
}

}  // namespace
}  // namespace muster

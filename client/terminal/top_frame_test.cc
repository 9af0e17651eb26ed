#include "client/terminal/top_frame.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job_service.pb.h"

namespace muster {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

v1::JobStatus& AddJob(v1::ListJobsReply& jobs, const std::string& name, v1::JobState state) {
  v1::JobStatus& job = *jobs.add_jobs();
  job.set_job_id(absl::StrCat(name, "-id"));
  job.mutable_spec()->set_name(name);
  job.set_state(state);
  return job;
}

v1::JobStatus& AddRunning(v1::ListJobsReply& jobs, const std::string& name, int slots) {
  v1::JobStatus& job = AddJob(jobs, name, v1::RUNNING);
  job.mutable_progress()->set_step(120);
  job.mutable_progress()->set_total_steps(1000);
  job.mutable_progress()->set_loss(1.25);
  job.mutable_progress()->set_examples_per_second(1234);
  job.mutable_progress()->set_seconds_left(125);
  for (int slot = 0; slot < slots; ++slot) {
    v1::TaskStatus& task = *job.add_tasks();
    task.set_slot(slot);
    task.set_worker_id(absl::StrCat("worker-", slot));
    task.set_state("RUNNING");
    task.set_step(120);
    v1::StepTimes& times = *task.mutable_last_steps();
    times.set_steps(10);
    times.set_training_seconds(1);
    times.set_compute_seconds(0.75);
    times.set_exposed_communication_seconds(0.25);
  }
  return job;
}

v1::DaemonStatus& AddDaemon(v1::GetClusterReply& cluster, const std::string& id, bool live) {
  v1::DaemonStatus& daemon = *cluster.add_daemons();
  daemon.set_id(id);
  daemon.set_kind(v1::WORKER);
  daemon.set_live(live);
  daemon.set_slots(2);
  daemon.set_slots_used(1);
  return daemon;
}

std::vector<std::string> LinesOf(const std::string& frame) {
  std::vector<std::string> lines = absl::StrSplit(frame, '\n');
  EXPECT_EQ(lines.back(), "");
  lines.pop_back();
  return lines;
}

size_t LineWith(const std::vector<std::string>& lines, const std::string& text) {
  for (size_t i = 0; i < lines.size(); ++i) {
    if (absl::StrContains(lines[i], text)) return i;
  }
  ADD_FAILURE() << "no line with " << text;
  return lines.size();
}

TEST(TopFrameTest, ShowsJobsDaemonsAndSlots) {
  v1::ListJobsReply jobs;
  AddJob(jobs, "waits", v1::PENDING).set_waiting_for("1 of 2 slots");
  AddRunning(jobs, "trains", 2).mutable_tasks(1)->set_slow("computes 2.1 x as long");
  AddJob(jobs, "over", v1::SUCCEEDED);
  v1::GetClusterReply cluster;
  AddDaemon(cluster, "w0", true);
  AddDaemon(cluster, "w1", false);
  const std::string frame = TopFrame(jobs, cluster, {.columns = 80, .lines = 100});
  const std::vector<std::string> lines = LinesOf(frame);
  EXPECT_EQ(lines[0], "1 running, 1 waiting; 1 of 2 slots used; 1 slow slot; 1 lost daemon");
  const size_t job = LineWith(lines, "120/1000");
  EXPECT_THAT(lines[job], HasSubstr("trains"));
  EXPECT_THAT(lines[job], HasSubstr("1.2500"));
  EXPECT_THAT(lines[job], HasSubstr("1,234"));
  EXPECT_THAT(lines[job], HasSubstr("2m05s"));
  EXPECT_LT(job, LineWith(lines, "PENDING")) << "running jobs come first";
  LineWith(lines, "waits: 1 of 2 slots");
  EXPECT_THAT(lines, Each(Not(HasSubstr("over"))));
  EXPECT_LT(LineWith(lines, "LOST"), LineWith(lines, "w0")) << "lost daemons come first";
  EXPECT_LT(LineWith(lines, "worker-1"), LineWith(lines, "worker-0")) << "slow slots come first";
  LineWith(lines, "slot 1 is slow: computes 2.1 x as long");
  EXPECT_THAT(lines[LineWith(lines, "worker-1")], HasSubstr("75%"));
}

TEST(TopFrameTest, FitsTheTerminal) {
  v1::ListJobsReply jobs;
  for (int i = 0; i < 30; ++i) {
    v1::JobStatus& job = AddRunning(jobs, absl::StrCat(std::string(60, 'n'), i), 40);
    job.set_waiting_for(std::string(300, 'x'));
    for (v1::TaskStatus& task : *job.mutable_tasks()) {
      task.set_worker_id(std::string(100, 'w'));
      task.set_slow(std::string(300, 's'));
    }
  }
  v1::GetClusterReply cluster;
  for (int i = 0; i < 200; ++i) AddDaemon(cluster, std::string(100, 'd'), true);
  for (const FrameSize size : {FrameSize{80, 24}, FrameSize{80, 1000}, FrameSize{20, 5}}) {
    const std::vector<std::string> lines = LinesOf(TopFrame(jobs, cluster, size));
    EXPECT_LE(lines.size(), size.lines);
    for (const std::string& line : lines) EXPECT_LE(line.size(), size.columns) << line;
  }
  EXPECT_THAT(LinesOf(TopFrame(jobs, cluster, {80, 24})).back(), HasSubstr("more lines"));
  LineWith(LinesOf(TopFrame(jobs, cluster, {80, 1000})), "and 192 more daemons");
  LineWith(LinesOf(TopFrame(jobs, cluster, {80, 1000})), "and 32 more slots");
}

TEST(TopFrameTest, CutsBetweenCharacters) {
  v1::ListJobsReply jobs;
  std::string name;
  for (int i = 0; i < 40; ++i) name += "é";
  AddRunning(jobs, name, 0);
  const std::vector<std::string> lines = LinesOf(TopFrame(jobs, v1::GetClusterReply(), {80, 24}));
  std::string cut;
  for (int i = 0; i < 23; ++i) cut += "é";
  EXPECT_THAT(lines[LineWith(lines, "120/1000")], HasSubstr(cut + "~  RUNNING"));
}

TEST(TopFrameTest, AWideTerminalShowsWholeNames) {
  v1::ListJobsReply jobs;
  const std::string name(120, 'n');
  AddRunning(jobs, name, 1);
  const std::vector<std::string> lines =
      LinesOf(TopFrame(jobs, v1::GetClusterReply(), {.columns = 200, .lines = 50}));
  EXPECT_THAT(lines[LineWith(lines, "120/1000")], HasSubstr(name + "  RUNNING"));
  LineWith(lines, "slots of " + name);
}

TEST(TopFrameTest, TroubleComesFirstAndWhatIsKnownStays) {
  v1::ListJobsReply jobs;
  AddRunning(jobs, "trains", 1);
  const std::vector<std::string> lines = LinesOf(
      TopFrame(jobs, v1::GetClusterReply(), {.columns = 80, .lines = 24}, "no answer\nat all"));
  EXPECT_THAT(lines[0], HasSubstr("no answer"));
  EXPECT_THAT(lines[0], HasSubstr("at all"));
  LineWith(lines, "120/1000");
}

TEST(TopFrameTest, AnEmptyClusterSaysSo) {
  const std::string frame = TopFrame(v1::ListJobsReply(), v1::GetClusterReply(), {80, 24});
  EXPECT_THAT(frame, HasSubstr("no job runs or waits"));
  EXPECT_THAT(frame, HasSubstr("0 of 0 slots used"));
}

}  // namespace
}  // namespace muster

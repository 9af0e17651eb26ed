// What a restart cannot bring back: a server's data folder that is gone or damaged under
// EVERY_PUSH, a checkpoint that cannot be read. The job goes back to what there is, says so, and
// ends with exactly the weights of a run that nothing disturbed.

#include <signal.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job_service.pb.h"
#include "tests/harness/endless_job.h"
#include "tests/harness/jobs.h"
#include "tests/harness/process_cluster.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kLossCheckpointSteps = 40;
// Of a job without checkpoints, which must be at it when its loss comes.
constexpr uint64_t kSteps = 800;

// Trains as long as the test needs it.
v1::JobSpec UnluckyJob(v1::UpdateSpec::Durability durability) {
  v1::JobSpec spec = ParseJobOrDie(R"pb(
    name: "unlucky"
    model { deep_fm { embedding_dim: 4 hidden: 16 } }
    data {
      synthetic_clicks { examples: 8000 fields: 4 cardinality: 1000 numeric: 2 seed: 5 }
      holdout: 0.1
    }
    optimizer { name: "adagrad" learning_rate: 0.05 }
    update { dense: PARAMETER_SERVER sparse: PARAMETER_SERVER deterministic: true partitions: 4 }
    workers: 2
    batch_size: 32
    checkpoint { full_every: 3 keep: 3 }
    seed: 11
  )pb");
  spec.mutable_update()->set_durability(durability);
  return Endless(std::move(spec), kLossCheckpointSteps);
}

// With no checkpoint but the last.
v1::JobSpec JobWithoutCheckpoints(v1::UpdateSpec::Durability durability) {
  v1::JobSpec spec = UnluckyJob(durability);
  spec.mutable_stop()->set_steps(kSteps);
  spec.mutable_checkpoint()->set_every_steps(0);
  return spec;
}

class LossTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto started = ProcessCluster::Start({});
    ASSERT_TRUE(started.ok()) << started.status();
    cluster_ = *std::move(started);
  }

  std::string Submit(const v1::JobSpec& spec) {
    const auto id = cluster_->Submit(spec);
    EXPECT_TRUE(id.ok()) << id.status();
    return id.ok() ? *id : "";
  }
  v1::JobStatus AwaitThat(const std::string& id,
                          const std::function<bool(const v1::JobStatus&)>& condition) {
    const auto status = cluster_->Await(id, condition);
    EXPECT_TRUE(status.ok()) << status.status() << cluster_->Diagnose(id);
    return status.ok() ? *status : v1::JobStatus();
  }
  v1::JobStatus AwaitCheckpoint(const std::string& id, uint64_t clock) {
    return AwaitThat(id, [clock](const v1::JobStatus& status) {
      return status.checkpoint_clock() >= clock && status.progress().step() > 0;
    });
  }
  void AwaitFirstStep(const std::string& id) {
    const v1::JobStatus status =
        AwaitThat(id, [](const v1::JobStatus& status) { return status.progress().step() > 0; });
    EXPECT_EQ(status.finished_unix_ms(), 0) << "the job was over before the loss";
  }
  void KillServers() {
    for (const char* server : {"server-0", "server-1"}) cluster_->Kill(server, SIGKILL);
  }
  void RestartServers() {
    for (const char* server : {"server-0", "server-1"}) {
      EXPECT_TRUE(cluster_->Restart(server).ok()) << server;
    }
  }
  v1::JobStatus AwaitEnd(const std::string& id) {
    const auto status = cluster_->AwaitEnd(id);
    EXPECT_TRUE(status.ok()) << status.status();
    return status.ok() ? *status : v1::JobStatus();
  }
  // An endless job goes on, with the weights of one that nobody disturbs on the same cluster.
  void ExpectUndisturbedWeights(const std::string& id) {
    const auto trained = AwaitCheckpointSince(*cluster_, id);
    ASSERT_TRUE(trained.ok()) << trained.status() << cluster_->Diagnose(id);
    const auto weights = EndAndTrainUndisturbed(*cluster_, id);
    ASSERT_TRUE(weights.ok()) << weights.status();
    EXPECT_TRUE(weights->disturbed == weights->undisturbed)
        << "at clock " << weights->clock << cluster_->Diagnose(id);
  }
  // A job without checkpoints succeeds, with the weights of one that nobody disturbs.
  void ExpectWeightsOfAWholeRun(const std::string& id) {
    const v1::JobStatus status = AwaitEnd(id);
    ASSERT_EQ(status.state(), v1::SUCCEEDED) << status.message() << cluster_->Diagnose(id);
    const auto weights = cluster_->Export(id);
    ASSERT_TRUE(weights.ok()) << weights.status();
    // The same for all such jobs, whatever their durability.
    static const auto& whole = *new absl::StatusOr<ExportedTensors>(TrainWhole());
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_TRUE(*weights == *whole) << cluster_->Diagnose(id);
  }
  absl::StatusOr<ExportedTensors> TrainWhole() {
    const std::string id = Submit(JobWithoutCheckpoints(v1::UpdateSpec::CHECKPOINT));
    EXPECT_EQ(AwaitEnd(id).state(), v1::SUCCEEDED);
    return cluster_->Export(id);
  }
  // The first event that contains `text`; empty: there is none.
  std::string EventWith(const std::string& id, const std::string& text) {
    v1::ListEventsReply reply;
    EXPECT_TRUE(cluster_->jobs().Events(id, reply).ok());
    for (const v1::JobEvent& event : reply.events()) {
      if (absl::StrContains(event.text(), text)) return event.text();
    }
    return "";
  }
  bool HasEvent(const std::string& id, const std::string& text) {
    return !EventWith(id, text).empty();
  }
  // Kills the servers, and the tasks, which might have more checkpoints committed.
  void KillServersAndTasks() {
    KillServers();
    for (const char* worker : {"worker-0", "worker-1"}) {
      for (const pid_t task : cluster_->ChildrenOf(worker)) kill(task, SIGKILL);
    }
  }
  // Damages every checkpoint of the job from `clock` on, also those that are not recorded yet: the
  // coordinator may be at it. REQUIRES: nobody writes more files.
  int DamageCheckpoints(const std::string& id, uint64_t clock) {
    const pid_t coordinator = cluster_->pid("coordinator");
    // Files that come and go meanwhile are in nobody's way.
    kill(coordinator, SIGSTOP);
    int damaged = 0;
    for (const auto& entry : fs::directory_iterator(cluster_->folder() + "/checkpoints/" + id)) {
      uint64_t at = 0;
      if (absl::SimpleAtoi(entry.path().filename().string(), &at) && at >= clock) {
        damaged += DamageAll(entry.path());
      }
    }
    kill(coordinator, SIGCONT);
    return damaged;
  }
  // Flips the bits of the second quarter of what was written to every file: damage in the middle,
  // however much of a file is only set aside.
  static int DamageAll(const std::string& folder) {
    int damaged = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      std::string bytes(entry.file_size(), '\0');
      file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
      const size_t written = bytes.find_last_not_of('\0') + 1;
      const size_t begin = written / 4, end = written / 2;
      if (begin == end) continue;
      for (size_t i = begin; i < end; ++i) bytes[i] = static_cast<char>(~bytes[i]);
      file.seekp(static_cast<std::streamoff>(begin));
      file.write(bytes.data() + begin, static_cast<std::streamsize>(end - begin));
      EXPECT_TRUE(file.good()) << entry.path();
      ++damaged;
    }
    return damaged;
  }

  std::unique_ptr<ProcessCluster> cluster_;
};

constexpr char kLostState[] = "a server lost what it had acknowledged";

TEST_F(LossTest, ALostVolumeTakesTheJobBackToItsLastCheckpoint) {
  const std::string id = Submit(UnluckyJob(v1::UpdateSpec::EVERY_PUSH));
  AwaitCheckpoint(id, kLossCheckpointSteps);
  cluster_->Kill("server-1", SIGKILL);
  fs::remove_all(cluster_->folder() + "/server-1");
  ASSERT_TRUE(cluster_->Restart("server-1").ok());
  ExpectUndisturbedWeights(id);
  EXPECT_THAT(EventWith(id, kLostState),
              AllOf(HasSubstr("server-1"), HasSubstr("generation 2 starts again from clock"),
                    Not(HasSubstr("from clock 0,"))));
}

TEST_F(LossTest, WithoutACheckpointALostVolumeMeansTheBeginning) {
  const std::string id = Submit(JobWithoutCheckpoints(v1::UpdateSpec::EVERY_PUSH));
  AwaitFirstStep(id);
  cluster_->Kill("server-0", SIGKILL);
  fs::remove_all(cluster_->folder() + "/server-0");
  ASSERT_TRUE(cluster_->Restart("server-0").ok());
  ExpectWeightsOfAWholeRun(id);
  EXPECT_THAT(EventWith(id, kLostState),
              HasSubstr("starts again from clock 0, with initial values"));
}

TEST_F(LossTest, DamagedLogsTakeTheJobBackToo) {
  // The logs alone have what was acknowledged, and all of it.
  const std::string id = Submit(JobWithoutCheckpoints(v1::UpdateSpec::EVERY_PUSH));
  AwaitFirstStep(id);
  cluster_->Kill("server-1", SIGKILL);
  ASSERT_GT(DamageAll(cluster_->folder() + "/server-1/logs"), 0);
  ASSERT_TRUE(cluster_->Restart("server-1").ok());
  ExpectWeightsOfAWholeRun(id);
  EXPECT_THAT(EventWith(id, kLostState), HasSubstr("generation 2 starts again from clock 0"));
}

TEST_F(LossTest, ADamagedNewestCheckpointGivesWayToTheOneBefore) {
  const std::string id = Submit(UnluckyJob(v1::UpdateSpec::CHECKPOINT));
  AwaitCheckpoint(id, 2 * kLossCheckpointSteps);
  KillServersAndTasks();
  v1::ListCheckpointsReply list;
  ASSERT_TRUE(cluster_->jobs().Checkpoints(id, list).ok());
  ASSERT_GE(list.checkpoints_size(), 2);
  const uint64_t newest = list.checkpoints().rbegin()->clock();
  ASSERT_GT(DamageCheckpoints(id, newest), 0);
  RestartServers();
  ExpectUndisturbedWeights(id);
  EXPECT_TRUE(HasEvent(id, absl::StrCat("the checkpoint at clock ", newest, " is damaged")))
      << cluster_->Diagnose(id);
}

TEST_F(LossTest, WithoutASoundCheckpointTheJobFailsByName) {
  v1::JobSpec spec = UnluckyJob(v1::UpdateSpec::CHECKPOINT);
  spec.mutable_checkpoint()->set_full_every(0);
  const std::string id = Submit(spec);
  AwaitCheckpoint(id, 2 * kLossCheckpointSteps);
  KillServersAndTasks();
  ASSERT_GT(DamageCheckpoints(id, 0), 0);
  RestartServers();
  const v1::JobStatus status = AwaitEnd(id);
  EXPECT_EQ(status.state(), v1::FAILED);
  EXPECT_THAT(status.message(), HasSubstr("every checkpoint of the job is damaged"));
  v1::ListCheckpointsReply list;
  ASSERT_TRUE(cluster_->jobs().Checkpoints(id, list).ok());
  EXPECT_GE(list.checkpoints_size(), 1);
  for (const v1::CheckpointStatus& checkpoint : list.checkpoints()) {
    EXPECT_NE(checkpoint.damage(), "") << checkpoint.clock();
  }
}

// Deltas that were written while servers were killed restore to the same bits.
TEST_F(LossTest, AChainOfDeltasOutlivesKills) {
  v1::JobSpec spec = UnluckyJob(v1::UpdateSpec::EVERY_PUSH);
  // None is full but the first, and the first after a kill.
  spec.mutable_checkpoint()->set_full_every(64);
  const std::string id = Submit(spec);
  AwaitCheckpoint(id, kLossCheckpointSteps);
  for (const char* server : {"server-1", "server-0", "server-1"}) {
    cluster_->Kill(server, SIGKILL);
    ASSERT_TRUE(cluster_->Restart(server).ok());
    const auto trained = AwaitCheckpointSince(*cluster_, id);
    ASSERT_TRUE(trained.ok()) << trained.status() << cluster_->Diagnose(id);
  }
  // From when a delta is the newest one on, all are.
  AwaitThat(id, [&](const v1::JobStatus& status) {
    v1::ListCheckpointsReply list;
    return cluster_->jobs().Checkpoints(id, list).ok() && !list.checkpoints().empty() &&
           list.checkpoints().rbegin()->has_base_clock();
  });
  cluster_->Kill("server-1", SIGKILL);
  fs::remove_all(cluster_->folder() + "/server-1");
  ASSERT_TRUE(cluster_->Restart("server-1").ok());
  ExpectUndisturbedWeights(id);
  const std::string back = EventWith(id, kLostState);
  constexpr absl::string_view kFrom = "starts again from clock ";
  ASSERT_THAT(back, HasSubstr(std::string(kFrom)));
  const std::string clock = back.substr(back.find(std::string(kFrom)) + kFrom.size());
  EXPECT_TRUE(HasEvent(id, absl::StrCat("checkpoint at clock ", clock, ", a delta on that at")))
      << cluster_->Diagnose(id);
}

}  // namespace
}  // namespace muster

#include "tests/recovery/dying_job.h"

#include <signal.h>
#include <sys/types.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/harness/endless_job.h"
#include "tests/recovery/no_lease_for_testing.h"

namespace muster {
namespace {

// A step makes all calls, and a checkpoint those of checkpoints, so a task that has not died after
// so many checkpoints makes no such call.
constexpr uint64_t kFruitlessCheckpoints = 4;

}  // namespace

uint64_t Incarnations(const v1::JobStatus& status) {
  uint64_t sum = 0;
  for (const v1::TaskStatus& task : status.tasks()) sum += task.incarnation();
  return sum;
}

void DyingJob::StartCluster(const v1::JobSpec& spec, int servers, int spare_workers) {
  deaths_ = testing::TempDir() + "/deaths";
  std::filesystem::create_directories(deaths_);
  setenv("MUSTER_DEATHS", deaths_.c_str(), /*overwrite=*/1);
  const std::string program = std::filesystem::absolute("tests/recovery/muster-dying-task");
  auto started = ProcessCluster::Start({.servers = servers,
                                        .workers = static_cast<int>(spec.workers()) + spare_workers,
                                        .lease = kNoLease,
                                        .worker_arguments = {"--task-program=" + program}});
  ASSERT_TRUE(started.ok()) << started.status();
  cluster_ = *std::move(started);
}

void DyingJob::Submit(const v1::JobSpec& spec) {
  const auto id = cluster_->Submit(spec);
  ASSERT_TRUE(id.ok()) << id.status();
  id_ = *id;
}

void DyingJob::Start(const v1::JobSpec& spec, int servers, int spare_workers) {
  ASSERT_NO_FATAL_FAILURE(StartCluster(spec, servers, spare_workers));
  ASSERT_NO_FATAL_FAILURE(Submit(spec));
  const auto running = AwaitRunning(*cluster_, id_);
  ASSERT_TRUE(running.ok()) << running.status();
}

void DyingJob::StartAndStopAt(const v1::JobSpec& spec, int servers, uint32_t slot,
                              const std::string& call) {
  ASSERT_NO_FATAL_FAILURE(StartCluster(spec, servers));
  const std::string file = Order(slot, absl::StrCat("stop ", call));
  ASSERT_NO_FATAL_FAILURE(Submit(spec));
  const auto stopped =
      cluster_->Await(id_, [&](const v1::JobStatus&) { return !std::filesystem::exists(file); });
  ASSERT_TRUE(stopped.ok()) << stopped.status() << cluster_->Diagnose(id_);
}

std::string DyingJob::Order(uint32_t slot, const std::string& call) const {
  const std::string file = absl::StrCat(deaths_, "/slot ", slot);
  // A task must not find half of the text.
  std::ofstream(file + ".new") << call;
  std::filesystem::rename(file + ".new", file);
  return file;
}

v1::JobStatus DyingJob::Status() {
  v1::JobStatus now;
  EXPECT_TRUE(cluster_->jobs().Get(id_, now).ok());
  return now;
}

std::string DyingJob::WorkerOf(uint32_t slot) {
  return Status().tasks(static_cast<int>(slot)).worker_id();
}

void DyingJob::DieAt(uint32_t slot, const std::string& call, Loss loss) {
  SCOPED_TRACE(absl::StrCat("slot ", slot, " dies ", call));
  const v1::JobStatus before = Status();
  const std::string file = Order(slot, call);
  const uint64_t fruitless =
      before.checkpoint_clock() + kFruitlessCheckpoints * before.spec().checkpoint().every_steps();
  const auto died = cluster_->Await(id_, [&](const v1::JobStatus& status) {
    return !std::filesystem::exists(file) || status.checkpoint_clock() > fruitless;
  });
  ASSERT_TRUE(died.ok()) << died.status() << cluster_->Diagnose(id_);
  ASSERT_FALSE(std::filesystem::exists(file)) << "the task makes no such call";
  if (loss == Loss::kOfATask) {
    AwaitTasks(before, 1);
  } else {
    AwaitReturn(before);
  }
}

v1::JobStatus DyingJob::Flip(uint32_t slot, const std::string& order, int workers) {
  const std::string file = Order(slot, order);
  const auto left = cluster_->Await(id_, [&](const v1::JobStatus& status) {
    return status.left_workers_size() >= workers || status.state() == v1::FAILED;
  });
  EXPECT_TRUE(left.ok()) << left.status() << cluster_->Diagnose(id_);
  std::filesystem::remove(file);
  return left.ok() ? *left : v1::JobStatus();
}

void DyingJob::Kill(const std::vector<uint32_t>& slots) {
  std::vector<pid_t> tasks;
  for (const uint32_t slot : slots) {
    std::vector<pid_t> children = cluster_->ChildrenOf(WorkerOf(slot));
    // A task of the generation before may still be about to end.
    while (children.size() != 1) {
      absl::SleepFor(absl::Milliseconds(10));
      children = cluster_->ChildrenOf(WorkerOf(slot));
    }
    tasks.push_back(children[0]);
  }
  for (const pid_t task : tasks) kill(task, SIGKILL);
}

void DyingJob::AwaitTasks(const v1::JobStatus& before, uint64_t count) {
  const auto replaced = cluster_->Await(id_, [&](const v1::JobStatus& status) {
    return Incarnations(status) >= Incarnations(before) + count;
  });
  ASSERT_TRUE(replaced.ok()) << replaced.status() << cluster_->Diagnose(id_);
  // Reports from before the loss may still be on their way, but all ranks take part in a cut.
  const auto went_on = AwaitCheckpointSince(*cluster_, id_);
  ASSERT_TRUE(went_on.ok()) << went_on.status() << cluster_->Diagnose(id_);
  EXPECT_EQ(went_on->generation(), before.generation()) << cluster_->Diagnose(id_);
  EXPECT_EQ(Incarnations(*went_on), Incarnations(before) + count) << cluster_->Diagnose(id_);
}

void DyingJob::AwaitReturn(const v1::JobStatus& before) {
  const auto back = cluster_->Await(
      id_, [&](const v1::JobStatus& status) { return status.generation() > before.generation(); });
  ASSERT_TRUE(back.ok()) << back.status() << cluster_->Diagnose(id_);
  const auto went_on = cluster_->Await(id_, [&](const v1::JobStatus& status) {
    return status.checkpoint_clock() > back->checkpoint_clock();
  });
  ASSERT_TRUE(went_on.ok()) << went_on.status() << cluster_->Diagnose(id_);
}

void DyingJob::ExpectTheSameBits() {
  const auto trained = AwaitCheckpointSince(*cluster_, id_);
  ASSERT_TRUE(trained.ok()) << trained.status();
  const auto weights = EndAndTrainUndisturbed(*cluster_, id_);
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_FALSE(weights->undisturbed.empty());
  EXPECT_TRUE(weights->disturbed == weights->undisturbed)
      << "the weights at clock " << weights->clock << " differ from an undisturbed run's\n"
      << cluster_->Diagnose(id_);
}

}  // namespace muster

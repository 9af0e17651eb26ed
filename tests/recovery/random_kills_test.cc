// Kills at random places of a deterministic job, with checkpoints, two in three of them
// deltas, written in the background all the while: whatever is hit, the job goes on with exactly
// the bits of a run that nothing disturbed.

#include <signal.h>

#include <fstream>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "tests/harness/endless_job.h"
#include "tests/harness/jobs.h"
#include "tests/harness/process_cluster.h"

namespace muster {
namespace {

// Of the job, from one kill to the next at most, unless it is faster than that.
constexpr uint64_t kStepsPerKill = 100;

struct TormentCase {
  const char* name;
  enum class Model { kClicks, kLanguage } model;
  v1::UpdateSpec::Durability durability;
  uint32_t seed;
  int kills;

  friend std::ostream& operator<<(std::ostream& out, const TormentCase& param) {
    return out << param.name;
  }
};

// Rows of few and of many steps, some of which expire and come again.
v1::JobSpec Clicks() {
  return ParseJobOrDie(R"pb(
    name: "tormented"
    model { deep_fm { embedding_dim: 4 hidden: 16 } }
    data {
      synthetic_clicks { examples: 20000 fields: 4 cardinality: 3000 numeric: 2 seed: 5 }
      holdout: 0.1
    }
    optimizer { name: "adagrad" learning_rate: 0.05 }
    update { dense: PARAMETER_SERVER sparse: PARAMETER_SERVER deterministic: true partitions: 4 }
    sparse_tables { expire_after_clocks: 60 }
    workers: 2
    batch_size: 32
    seed: 11
  )pb");
}

// Gradients are pushed where they lie in the task's memory, and parameters rounded there.
v1::JobSpec Language() {
  std::ofstream text(testing::TempDir() + "/text.txt");
  for (int line = 0; line < 2000; ++line) text << "line " << line * line % 997 << "\n";
  v1::JobSpec spec = ParseJobOrDie(R"pb(
    name: "tormented"
    model {
      transformer { layers: 2 width: 16 heads: 2 context: 16 dropout: 0.1 attention_dropout: 0.1 }
    }
    data {
      sequences {}
      holdout: 0.1
    }
    optimizer { name: "adamw" learning_rate: 0.001 }
    update { dense: PARAMETER_SERVER deterministic: true partitions: 4 block_bytes: 4096 }
    compute { type: BF16 }
    workers: 2
    batch_size: 4
    seed: 11
  )pb");
  spec.mutable_data()->mutable_sequences()->set_path(testing::TempDir() + "/text.txt");
  return spec;
}

v1::JobSpec TormentedJob(const TormentCase& param) {
  v1::JobSpec spec = param.model == TormentCase::Model::kClicks ? Clicks() : Language();
  spec.mutable_update()->set_durability(param.durability);
  spec.mutable_checkpoint()->set_full_every(3);
  return Endless(std::move(spec), kStepsPerKill);
}

class RandomKillsTest : public ::testing::TestWithParam<TormentCase> {
 protected:
  // Kills somebody, and starts the daemon again.
  std::string KillSomebody(ProcessCluster& cluster) {
    const std::vector<std::string> victims = {"server-0", "server-1",    "worker-0", "worker-1",
                                              "task",     "coordinator", "server-0", "server-1"};
    const std::string& victim = victims[random_() % victims.size()];
    if (victim != "task") {
      cluster.Kill(victim, SIGKILL);
      EXPECT_TRUE(cluster.Restart(victim).ok()) << victim;
      return victim;
    }
    const std::string worker = absl::StrCat("worker-", random_() % 2);
    // None, where it has just been lost.
    for (const pid_t task : cluster.ChildrenOf(worker)) kill(task, SIGKILL);
    return absl::StrCat("the task of ", worker);
  }

  std::mt19937 random_{GetParam().seed};
};

TEST_P(RandomKillsTest, JobGoesOnWithTheSameBits) {
  auto started = ProcessCluster::Start({});
  ASSERT_TRUE(started.ok()) << started.status();
  ProcessCluster& cluster = **started;
  const auto id = cluster.Submit(TormentedJob(GetParam()));
  ASSERT_TRUE(id.ok()) << id.status();
  std::vector<std::string> killed;
  for (int i = 0; i < GetParam().kills; ++i) {
    // Anywhere within its part of the run.
    const uint64_t at = kStepsPerKill * i + 1 + random_() % kStepsPerKill;
    const auto reached = cluster.Await(
        *id, [&](const v1::JobStatus& status) { return status.progress().step() >= at; });
    ASSERT_TRUE(reached.ok()) << reached.status() << "\nkilled: " << absl::StrJoin(killed, ", ")
                              << "\n"
                              << cluster.Diagnose(*id);
    killed.push_back(absl::StrCat(KillSomebody(cluster), " at ", reached->progress().step()));
  }
  const auto trained = AwaitCheckpointSince(cluster, *id);
  ASSERT_TRUE(trained.ok()) << trained.status() << "\nkilled: " << absl::StrJoin(killed, ", ")
                            << "\n"
                            << cluster.Diagnose(*id);
  const auto weights = EndAndTrainUndisturbed(cluster, *id);
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_TRUE(weights->disturbed == weights->undisturbed)
      << "the weights at clock " << weights->clock
      << " differ from an undisturbed run's\nkilled: " << absl::StrJoin(killed, ", ") << "\n"
      << cluster.Diagnose(*id);
}

std::vector<TormentCase> CasesWith(int kills) {
  return {
      {"ClicksEveryPush", TormentCase::Model::kClicks, v1::UpdateSpec::EVERY_PUSH, 20, kills},
      {"ClicksCheckpoint", TormentCase::Model::kClicks, v1::UpdateSpec::CHECKPOINT, 21, kills},
      {"LanguageEveryPush", TormentCase::Model::kLanguage, v1::UpdateSpec::EVERY_PUSH, 22, kills},
      {"LanguageCheckpoint", TormentCase::Model::kLanguage, v1::UpdateSpec::CHECKPOINT, 23, kills}};
}

INSTANTIATE_TEST_SUITE_P(Durabilities, RandomKillsTest, ::testing::ValuesIn(CasesWith(8)),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(ExhaustiveDurabilities, RandomKillsTest,
                         ::testing::ValuesIn(CasesWith(20)),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace muster

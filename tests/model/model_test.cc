// Searches schedules of faults for a committed checkpoint that changed, vanished, or holds a
// mixture of histories, and for jobs that do not end as they would without faults.
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/model/model_cluster.h"

namespace muster {
namespace {

using Kind = Fault::Kind;

// Less than a lease, about one, and long enough for everything to be placed anew.
constexpr absl::Duration kShort = absl::Seconds(2);
constexpr absl::Duration kAboutALease = absl::Milliseconds(4500);
constexpr absl::Duration kLong = absl::Seconds(9);

// 1 tries every fault at every message.
constexpr uint64_t kStride = 4;

std::vector<Fault> AllFaults() {
  std::vector<Fault> faults;
  for (int target : {0, 1}) {
    for (const Kind kind : {Kind::kRestartServerUnheard, Kind::kStopServer, Kind::kCutServer,
                            Kind::kCutWorker, Kind::kCutData}) {
      for (const absl::Duration lasts : {kShort, kAboutALease, kLong}) {
        faults.push_back({.kind = kind, .target = target, .lasts = lasts});
      }
    }
    for (const Kind kind : {Kind::kRestartServer, Kind::kKillTask, Kind::kRestartWorker}) {
      faults.push_back({.kind = kind, .target = target});
    }
  }
  for (const Kind kind : {Kind::kRestartCoordinator, Kind::kLoseRequest, Kind::kLoseAnswer}) {
    faults.push_back({.kind = kind});
  }
  return faults;
}

std::string RunWith(ModelCluster::Options options) {
  std::string schedule;
  for (const auto& [message, fault] : options.faults) {
    absl::StrAppend(&schedule, "; at message ", message, ": ", Describe(fault));
  }
  const uint64_t seed = options.seed;
  ModelCluster cluster(std::move(options));
  const std::string wrong = cluster.Run();
  return wrong.empty() ? "" : absl::StrCat(wrong, " (seed ", seed, schedule, ")");
}

class ModelTest : public testing::TestWithParam<v1::UpdateSpec::Durability> {};

TEST_P(ModelTest, OneFault) {
  ModelCluster undisturbed({.durability = GetParam()});
  ASSERT_EQ(undisturbed.Run(), "");
  const uint64_t messages = undisturbed.messages();
  ASSERT_GT(messages, 100);
  const std::vector<Fault> faults = AllFaults();
  for (size_t i = 0; i < faults.size(); ++i) {
    // All messages together take minutes; from fault to fault others have their turn.
    for (uint64_t message = i % kStride; message < messages; message += kStride) {
      ASSERT_EQ(RunWith({.durability = GetParam(), .faults = {{message, faults[i]}}}), "");
    }
  }
}

TEST_P(ModelTest, SeveralFaultsTogether) {
  const std::vector<Fault> faults = AllFaults();
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    std::mt19937_64 random(seed);
    ModelCluster::Options options{.durability = GetParam(), .seed = seed};
    uint64_t message = 0;
    for (uint64_t left = 2 + random() % 3; left > 0; --left) {
      message += random() % 60;
      options.faults.emplace(message, faults[random() % faults.size()]);
    }
    ASSERT_EQ(RunWith(std::move(options)), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Durabilities, ModelTest,
                         testing::Values(v1::UpdateSpec::CHECKPOINT, v1::UpdateSpec::EVERY_PUSH),
                         [](const auto& info) {
                           return v1::UpdateSpec::Durability_Name(info.param);
                         });

// What the search is for: without what tasks and servers tell each other of processes and of state
// that is expected, a server that was started again takes part as one that never had the job.
TEST(ModelSearchTest, FindsServersThatPassForNew) {
  int found = 0;
  for (uint64_t message = 30; message < 90; message += 2) {
    ModelCluster::Options options{
        .faults = {{message,
                    {.kind = Kind::kRestartServerUnheard, .target = 1, .lasts = kAboutALease}}},
        .deterministic = false};
    ASSERT_EQ(RunWith(options), "");
    options.tasks = ModelCluster::Options::Tasks::kNaive;
    if (!RunWith(options).empty()) ++found;
  }
  EXPECT_GT(found, 0);
}

}  // namespace
}  // namespace muster

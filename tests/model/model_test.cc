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
// That of a default run, whose messages are some of the others'.
constexpr uint64_t kDefaultStride = 3 * kStride;

constexpr uint64_t kSeeds = 400;
constexpr uint64_t kDefaultSeeds = 130;

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

// What a search is about.
struct Searched {
  const char* name;
  ModelCluster::Options options;
  std::vector<Fault> faults;
};

std::vector<Fault> FaultsOfRanks() {
  std::vector<Fault> faults = AllFaults();
  std::erase_if(faults, [](const Fault& fault) {
    return fault.kind == Kind::kRestartServer || fault.kind == Kind::kRestartServerUnheard ||
           fault.kind == Kind::kStopServer || fault.kind == Kind::kCutServer;
  });
  return faults;
}

class ModelTest : public testing::TestWithParam<Searched> {
 protected:
  // Tries each fault at the messages of a default run, or at the others.
  static void TryOneFault(bool by_default);
  // Tries several faults together, with each of the seeds [begin, end].
  static void TrySeveralFaults(uint64_t begin, uint64_t end);
};

void ModelTest::TryOneFault(bool by_default) {
  ModelCluster undisturbed(GetParam().options);
  ASSERT_EQ(undisturbed.Run(), "");
  const uint64_t messages = undisturbed.messages();
  ASSERT_GT(messages, 50);
  const std::vector<Fault>& faults = GetParam().faults;
  for (size_t i = 0; i < faults.size(); ++i) {
    // All messages together take minutes; from fault to fault others have their turn.
    for (uint64_t message = i % kStride; message < messages; message += kStride) {
      if ((message % kDefaultStride == i % kDefaultStride) != by_default) continue;
      ModelCluster::Options options = GetParam().options;
      options.faults = {{message, faults[i]}};
      ASSERT_EQ(RunWith(std::move(options)), "");
    }
  }
}

void ModelTest::TrySeveralFaults(uint64_t begin, uint64_t end) {
  const std::vector<Fault>& faults = GetParam().faults;
  for (uint64_t seed = begin; seed <= end; ++seed) {
    std::mt19937_64 random(seed);
    ModelCluster::Options options = GetParam().options;
    options.seed = seed;
    uint64_t message = 0;
    for (uint64_t left = 2 + random() % 3; left > 0; --left) {
      message += random() % 60;
      options.faults.emplace(message, faults[random() % faults.size()]);
    }
    ASSERT_EQ(RunWith(std::move(options)), "");
  }
}

TEST_P(ModelTest, OneFault) { TryOneFault(/*by_default=*/true); }

TEST_P(ModelTest, OneFaultExhaustive) { TryOneFault(/*by_default=*/false); }

TEST_P(ModelTest, SeveralFaultsTogether) { TrySeveralFaults(1, kDefaultSeeds); }

TEST_P(ModelTest, SeveralFaultsTogetherExhaustive) { TrySeveralFaults(kDefaultSeeds + 1, kSeeds); }

INSTANTIATE_TEST_SUITE_P(
    Roads, ModelTest,
    testing::Values(
        Searched{"CHECKPOINT", {.durability = v1::UpdateSpec::CHECKPOINT}, AllFaults()},
        Searched{"EVERY_PUSH", {.durability = v1::UpdateSpec::EVERY_PUSH}, AllFaults()},
        Searched{"ALL_REDUCE", {.road = ModelCluster::Options::Road::kAllReduce}, FaultsOfRanks()}),
    [](const auto& info) { return info.param.name; });

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

// Without what tasks that meet are told of the last checkpoint, and with names of files that are
// used again, the next round takes a cut over the files that were committed.
TEST(ModelSearchTest, FindsCutsThatAreTakenAgain) {
  int found = 0;
  for (uint64_t message = 10; message < 60; ++message) {
    ModelCluster::Options options{.road = ModelCluster::Options::Road::kAllReduce,
                                  .faults = {{message, {.kind = Kind::kKillTask, .target = 1}}}};
    ASSERT_EQ(RunWith(options), "");
    options.tasks = ModelCluster::Options::Tasks::kNaive;
    if (!RunWith(options).empty()) ++found;
  }
  EXPECT_GT(found, 0);
}

}  // namespace
}  // namespace muster

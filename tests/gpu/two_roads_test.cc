// The two-road training test without a GPU: emulated devices, ranks as threads.
#include "tests/gpu/two_roads.h"

#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "worker/collectives/host/host_communicator.h"
#include "worker/collectives/transport/in_process_transport_for_testing.h"

namespace muster {
namespace {

// Returns what each rank has after training by all-reduce.
std::vector<absl::StatusOr<std::vector<float>>> TrainRanks(const v1::JobSpec& job) {
  InProcessGroup group(kTwoRoadsSlots);
  std::vector<absl::StatusOr<std::vector<float>>> ranks(kTwoRoadsSlots, std::vector<float>());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kTwoRoadsSlots; ++rank) {
    threads.emplace_back([&, rank] {
      DeviceRank::Place place;
      place.host = MakeHostCommunicator(group.Join(rank), {.same_machine = true}).value();
      ranks[rank] = TrainByAllReduce(job, std::move(place));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ranks;
}

TEST(TwoRoadsTest, BothRoadsEndWhereOneProcessDoes) {
  const auto alone = TrainAlone(TwoRoadsJob("F32"));
  ASSERT_TRUE(alone.ok()) << alone.status();
  const auto server = TrainByServer(TwoRoadsJob("F32"));
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_LE(WeightsDistance(*server, *alone), 1e-5);
  for (const uint32_t stage : {0, 1, 2, 3}) {
    const auto ranks = TrainRanks(TwoRoadsJob("F32", stage));
    for (const auto& weights : ranks) {
      ASSERT_TRUE(weights.ok()) << weights.status();
      EXPECT_LE(WeightsDistance(*weights, *alone), 1e-5) << stage;
      EXPECT_EQ(*weights, *ranks[0]) << "every rank has the same bits";
    }
  }
}

TEST(TwoRoadsTest, StagesOfAPipelineEndWhereOneProcessDoes) {
  const auto alone = TrainAlone(TwoStagesJob());
  ASSERT_TRUE(alone.ok()) << alone.status();
  std::vector<float> joined;
  for (const auto& weights : TrainRanks(TwoStagesJob())) {
    ASSERT_TRUE(weights.ok()) << weights.status();
    joined.insert(joined.end(), weights->begin(), weights->end());
  }
  EXPECT_EQ(joined, *alone);
}

TEST(TwoRoadsTest, RanksOfStagesThatComputeInBf16EndWhereOneProcessDoes) {
  const auto alone = TrainAlone(TwoRoadsJob("BF16"));
  ASSERT_TRUE(alone.ok()) << alone.status();
  for (const uint32_t stage : {1, 3}) {
    for (const auto& weights : TrainRanks(TwoRoadsJob("BF16", stage))) {
      ASSERT_TRUE(weights.ok()) << weights.status();
      EXPECT_LE(WeightsDistance(*weights, *alone), 5e-3) << stage;
    }
  }
}

}  // namespace
}  // namespace muster

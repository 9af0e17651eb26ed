// The two-road training test without a GPU: emulated devices, ranks as threads.
#include "tests/gpu/two_roads.h"

#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "worker/collectives/host/host_communicator.h"
#include "worker/collectives/transport/in_process_transport.h"

namespace muster {
namespace {

TEST(TwoRoadsTest, BothRoadsEndWhereOneProcessDoes) {
  const v1::JobSpec job = TwoRoadsJob("F32");
  const auto alone = TrainAlone(job);
  ASSERT_TRUE(alone.ok()) << alone.status();
  const auto server = TrainByServer(job);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_LE(WeightsDistance(*server, *alone), 1e-5);

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
  for (const auto& weights : ranks) {
    ASSERT_TRUE(weights.ok()) << weights.status();
    EXPECT_LE(WeightsDistance(*weights, *alone), 1e-5);
    EXPECT_EQ(*weights, *ranks[0]) << "every rank has the same bits";
  }
}

}  // namespace
}  // namespace muster

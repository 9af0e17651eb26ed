// One small job down both roads on GPUs: gradients summed by NCCL between processes, and by a
// parameter server that gets them from the device. Without a GPU it is skipped with the reason.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "common/files/bytes_of_file.h"
#include "tests/gpu/gpu_ranks.h"
#include "tests/gpu/two_roads.h"

namespace muster {
namespace {

constexpr char kTwoStages[] = "stages";

absl::Status RunRank(const GpuRank& rank) {
  std::string reason;
  MUSTER_ASSIGN_OR_RETURN(GpuGroup group, MeetGpuRanks(rank));
  DeviceRank::Place place;
  place.host = std::move(group.host);
  place.make_communicator = [&group](Communicator&) { return std::move(group.nccl); };
  place.device = rank.rank % CountGpus(&reason);
  // The type and the stage of ZeRO, or that ranks are stages of a pipeline.
  const std::vector<std::string> task = absl::StrSplit(rank.task, ' ');
  const v1::JobSpec job =
      rank.task == kTwoStages ? TwoStagesJob() : TwoRoadsJob(task[0], std::stoi(task[1]));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<float> weights,
                          TrainByAllReduce(job, std::move(place)));
  PublishText(
      absl::StrCat(rank.folder, "/weights", rank.rank),
      std::string(reinterpret_cast<const char*>(weights.data()), weights.size() * sizeof(float)));
  return absl::OkStatus();
}

std::vector<float> WeightsIn(const std::string& path) {
  const std::string bytes = BytesOfFile(path);
  std::vector<float> weights(bytes.size() / sizeof(float));
  std::memcpy(weights.data(), bytes.data(), weights.size() * sizeof(float));
  return weights;
}

struct RoadCase {
  std::string type;
  // Of the ranks by all-reduce.
  uint32_t stage = 0;
  double bound = 0;
};

class TwoRoadsGpuTest : public ::testing::TestWithParam<RoadCase> {};

// 20 steps of sums in another order; in bf16 a weight that rounds to its other neighbour changes
// what is computed with it by 2^-8. Under stages matrices are compared as they are rounded.
TEST_P(TwoRoadsGpuTest, BothEndWhereOneProcessDoes) {
  std::string reason;
  if (CountGpus(&reason) == 0) GTEST_SKIP() << reason;
  const auto alone = TrainAlone(TwoRoadsJob(GetParam().type));
  ASSERT_TRUE(alone.ok()) << alone.status();
  const auto server = TrainByServer(TwoRoadsJob(GetParam().type));
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_LE(WeightsDistance(*server, *alone), GetParam().bound);
  GpuRun run;
  run.task = absl::StrCat(GetParam().type, " ", GetParam().stage);
  run.world = kTwoRoadsSlots;
  run.look = [&](const std::string& folder) {
    const std::vector<float> first = WeightsIn(folder + "/weights0");
    EXPECT_LE(WeightsDistance(first, *alone), GetParam().bound);
    for (int rank = 1; rank < kTwoRoadsSlots; ++rank) {
      EXPECT_EQ(WeightsIn(absl::StrCat(folder, "/weights", rank)), first)
          << "every rank has the same bits";
    }
  };
  RunGpuRanks(run);
}

INSTANTIATE_TEST_SUITE_P(Types, TwoRoadsGpuTest,
                         ::testing::Values(RoadCase{"F32", 0, 1e-5}, RoadCase{"BF16", 0, 1e-3},
                                           RoadCase{"F32", 1, 1e-5}, RoadCase{"F32", 2, 1e-5},
                                           RoadCase{"F32", 3, 1e-5}, RoadCase{"BF16", 1, 5e-3},
                                           RoadCase{"BF16", 3, 5e-3}),
                         [](const auto& info) {
                           return absl::StrCat(info.param.type, "Stage", info.param.stage);
                         });

// Sends and receives between two stages, in batches.
TEST(TwoStagesGpuTest, EndsWhereOneProcessDoes) {
  std::string reason;
  if (CountGpus(&reason) == 0) GTEST_SKIP() << reason;
  const auto alone = TrainAlone(TwoStagesJob());
  ASSERT_TRUE(alone.ok()) << alone.status();
  GpuRun run;
  run.task = kTwoStages;
  run.world = kTwoRoadsSlots;
  run.look = [&](const std::string& folder) {
    std::vector<float> joined;
    for (int rank = 0; rank < kTwoRoadsSlots; ++rank) {
      const std::vector<float> stage = WeightsIn(absl::StrCat(folder, "/weights", rank));
      joined.insert(joined.end(), stage.begin(), stage.end());
    }
    EXPECT_LE(WeightsDistance(joined, *alone), 1e-5);
  };
  RunGpuRanks(run);
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) { return muster::GpuRanksMain(argc, argv, muster::RunRank); }

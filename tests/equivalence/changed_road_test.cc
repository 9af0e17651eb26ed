// A job saved on one road goes on on another, and ends in the same bits as if it had stayed.
#include <string>
#include <tuple>
#include <vector>

#include "common/files/temp_folder.h"
#include "gtest/gtest.h"
#include "tests/equivalence/run_checkpoints.h"
#include "tests/equivalence/training_jobs.h"
#include "tests/equivalence/training_run.h"

namespace muster {
namespace {

enum class Road { kServers, kAllReduce, kHybrid };

std::string RoadName(Road road) {
  return road == Road::kServers ? "Servers" : road == Road::kAllReduce ? "AllReduce" : "Hybrid";
}

TrainedValues TrainOn(Road road, v1::JobSpec spec, const RunOptions& options) {
  if (road == Road::kServers) return TrainOnServers(spec, options).trained[0];
  spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  spec.mutable_update()->set_sparse(road == Road::kHybrid ? v1::UpdateSpec::PARAMETER_SERVER
                                                          : v1::UpdateSpec::ALL_REDUCE);
  return TrainByAllReduce(spec, options).trained[0];
}

using RoadChange = std::tuple<std::string, Road, Road>;

class ChangedRoadTest : public ::testing::TestWithParam<RoadChange> {};

TEST_P(ChangedRoadTest, EndsInTheSameBits) {
  const auto [model, first, second] = GetParam();
  const TempFolder folder;
  v1::JobSpec spec = TinyJob(model, "adam", WriteTinyText(folder));
  spec.set_workers(2);
  spec.mutable_stop()->set_steps(20);
  spec.mutable_update()->set_deterministic(true);
  spec.mutable_clipping()->set_by_global_norm(0.5);
  spec.mutable_schedule()->set_name("cosine");
  spec.mutable_checkpoint()->set_every_steps(8);
  spec.mutable_optimizer()->set_average_decay(0.75);
  if (model == "mlp" || model == "transformer") {
    spec.mutable_optimizer()->set_state_type(v1::OptimizerSpec::BF16);
  }
  RunCheckpoints checkpoints;
  RunOptions options;
  options.keys = TrainLocally(spec).keys;
  options.checkpoints = &checkpoints;
  const TrainedValues undisturbed = TrainOn(first, spec, options);
  ASSERT_FALSE(undisturbed.values.empty());

  options.from = 8;
  EXPECT_EQ(TrainOn(second, spec, options).values, undisturbed.values);
  // Another number of partitions.
  spec.mutable_update()->set_partitions(5);
  spec.mutable_clipping()->clear_by_global_norm();
  options.from = 16;
  const TrainedValues here = TrainOn(second, spec, options);
  ASSERT_FALSE(here.values.empty());
  spec.mutable_update()->set_partitions(2);
  EXPECT_EQ(TrainOn(first, spec, options).values, here.values);
}

// Returns changes from any road to any, with every model: those chosen, which have each model begin
// and go on on each road and each change with some model, or the others.
std::vector<RoadChange> RoadChanges(bool chosen) {
  constexpr Road kRoads[] = {Road::kServers, Road::kAllReduce, Road::kHybrid};
  std::vector<RoadChange> changes;
  for (size_t model = 0; model < ModelNames().size(); ++model) {
    for (size_t first = 0; first < 3; ++first) {
      for (size_t second = 0; second < 3; ++second) {
        if ((second == (first + model) % 3) != chosen) continue;
        changes.emplace_back(ModelNames()[model], kRoads[first], kRoads[second]);
      }
    }
  }
  return changes;
}

std::string NameOfChange(const ::testing::TestParamInfo<RoadChange>& info) {
  const auto& [model, first, second] = info.param;
  return model + "_" + RoadName(first) + "_" + RoadName(second);
}

INSTANTIATE_TEST_SUITE_P(EveryModel, ChangedRoadTest,
                         ::testing::ValuesIn(RoadChanges(/*chosen=*/true)), NameOfChange);
INSTANTIATE_TEST_SUITE_P(ExhaustiveEveryModel, ChangedRoadTest,
                         ::testing::ValuesIn(RoadChanges(/*chosen=*/false)), NameOfChange);

}  // namespace
}  // namespace muster

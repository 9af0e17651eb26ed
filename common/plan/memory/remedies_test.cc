#include "common/plan/memory/remedies.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/plan/memory/memory_plan.h"
#include "common/plan/memory/plan_jobs_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::string> Changes(const v1::JobSpec& spec, uint64_t limit,
                                 MemoryOf memory = MemoryOf::kWorker) {
  std::vector<std::string> changes;
  for (const Remedy& remedy : FindRemedies(spec, SizeOfData(spec.data()), {}, memory, limit)) {
    EXPECT_LE(remedy.bytes, limit);
    changes.push_back(remedy.change);
  }
  return changes;
}

TEST(RemediesTest, NamesEachChangeThatHelpsAlone) {
  // Where servers have the optimizer's state, gradients need no room of their own on the way there.
  EXPECT_THAT(Changes(Gpt("workers: 1"), 480 * kMiB),
              ::testing::ElementsAre("compute.recompute SELECTIVE", "micro_batches 2", "2 workers",
                                     "parallelism.zero.stage 1 and offload OPTIMIZER_STATE",
                                     "update.dense PARAMETER_SERVER"));
  EXPECT_THAT(Changes(Gpt("workers: 1"), 400 * kMiB),
              ::testing::ElementsAre("compute.recompute FULL", "micro_batches 2", "2 workers"));
}

TEST(RemediesTest, ServersTakeTheJobWithoutItsShards) {
  v1::JobSpec spec = Gpt("workers: 1");
  spec.mutable_parallelism()->mutable_zero()->set_stage(3);
  EXPECT_THAT(Changes(spec, 480 * kMiB),
              ::testing::Contains("update.dense PARAMETER_SERVER without parallelism.zero"));
}

TEST(RemediesTest, NamesThemTogetherWhereNoneHelpsAlone) {
  const std::vector<std::string> changes = Changes(Gpt("workers: 1"), 230 * kMiB);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_THAT(changes[0], HasSubstr("compute.recompute FULL with micro_batches"));
}

// The lowest stage that suffices is named.
TEST(RemediesTest, NamesTheStageOfZero) {
  v1::JobSpec spec = Gpt("workers: 1");
  spec.set_workers(4);
  const auto own = [&spec](uint32_t stage) {
    v1::JobSpec staged = spec;
    staged.mutable_parallelism()->mutable_zero()->set_stage(stage);
    return PlanMemory(staged, SizeOfData(spec.data()), {}).worker_own_bytes();
  };
  ASSERT_GT(own(0), own(1));
  ASSERT_GT(own(1), own(2));
  ASSERT_GT(own(2), own(3));
  for (const uint32_t stage : {1, 2, 3}) {
    EXPECT_THAT(Changes(spec, own(stage)),
                Contains(absl::StrCat("parallelism.zero.stage ", stage)));
    // One byte less is too little for this stage.
    EXPECT_THAT(Changes(spec, own(stage) - 1),
                Not(Contains(absl::StrCat("parallelism.zero.stage ", stage))));
  }
  // The fewest workers have larger slices.
  const uint64_t with_all = own(1);
  spec.set_min_workers(2);
  EXPECT_THAT(Changes(spec, own(1)), Contains("parallelism.zero.stage 1"));
  EXPECT_THAT(Changes(spec, with_all), Not(Contains("parallelism.zero.stage 1")));
  spec.clear_min_workers();
  spec.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  EXPECT_THAT(Changes(spec, own(3)), Contains("parallelism.zero.stage 3"));
  // Both passes must read one version.
  spec.mutable_update()->set_staleness_bound(1);
  EXPECT_THAT(Changes(spec, own(3)), Not(Contains(HasSubstr("zero"))));
}

TEST(RemediesTest, DividesTheModelAmongMoreWorkers) {
  v1::JobSpec spec = Gpt("workers: 1");
  spec.set_name("g");
  spec.mutable_stop()->set_steps(10);
  const auto own = [](v1::JobSpec spec) {
    return PlanMemory(spec, SizeOfData(spec.data()), {}).worker_own_bytes();
  };
  v1::JobSpec tensor = spec;
  tensor.set_workers(2);
  tensor.mutable_parallelism()->set_tensor(2);
  EXPECT_THAT(Changes(spec, own(tensor)), Contains("parallelism.tensor 2 and 2 workers"));
  EXPECT_THAT(Changes(spec, own(tensor) - 1), Not(Contains("parallelism.tensor 2 and 2 workers")));
  v1::JobSpec pipeline = spec;
  pipeline.set_workers(2);
  pipeline.set_micro_batches(4);
  pipeline.mutable_parallelism()->set_pipeline(2);
  EXPECT_THAT(Changes(spec, own(pipeline)),
              Contains("parallelism.pipeline 2, micro_batches 4 and 2 workers"));
  // Six heads are not divided by four.
  EXPECT_THAT(Changes(tensor, own(tensor) - 1), Not(Contains(HasSubstr("parallelism.tensor 4"))));
}

TEST(RemediesTest, OffloadsStateWhereAJobMay) {
  v1::JobSpec spec = Gpt("workers: 1");
  spec.set_workers(2);
  spec.mutable_parallelism()->mutable_zero()->set_stage(3);
  v1::JobSpec offloads = spec;
  offloads.mutable_parallelism()->mutable_zero()->set_offload(v1::ZeroSpec::OPTIMIZER_STATE);
  const uint64_t limit = PlanMemory(offloads, SizeOfData(spec.data()), {}).worker_own_bytes();
  EXPECT_THAT(Changes(spec, limit), Contains("parallelism.zero.offload OPTIMIZER_STATE"));
  EXPECT_THAT(Changes(offloads, limit - 1), Not(Contains(HasSubstr("offload"))));
  // Copies are in memory.
  spec.mutable_parallelism()->mutable_zero()->set_redundancy(1);
  EXPECT_THAT(Changes(spec, limit), Not(Contains(HasSubstr("offload"))));
}

TEST(RemediesTest, DevicesHaveTheirOwn) {
  v1::JobSpec spec = Gpt("workers: 1");
  spec.mutable_compute()->set_device(v1::ComputeSpec::CUDA);
  EXPECT_THAT(Changes(spec, 1724 * kMiB, MemoryOf::kDevice),
              ::testing::ElementsAre("compute.recompute SELECTIVE", "micro_batches 2",
                                     "update.dense PARAMETER_SERVER"))
      << "with a second worker comes NCCL";
  EXPECT_THAT(Changes(spec, 1424 * kMiB, MemoryOf::kDevice),
              ::testing::ElementsAre("compute.recompute FULL with micro_batches 8 with "
                                     "update.dense PARAMETER_SERVER"));
}

TEST(RemediesTest, SaysWhereNothingHelps) {
  EXPECT_THAT(FindRemedies(Gpt("workers: 1"), {}, {}, MemoryOf::kWorker, 50 * kMiB), IsEmpty());
  EXPECT_THAT(DescribeRemedies({}), HasSubstr("smaller model"));
  EXPECT_EQ(DescribeRemedies({{"micro_batches 4", 3 * kMiB}, {"2 workers", 2 * kMiB}}),
            "it would fit with micro_batches 4 (3.0 MiB), or 2 workers (2.0 MiB)");
}

TEST(RemediesTest, LeavesAJobThatFitsAlone) {
  EXPECT_THAT(Changes(Gpt("workers: 1"), 1 << 30), IsEmpty());
}

}  // namespace
}  // namespace muster

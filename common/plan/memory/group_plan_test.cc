// Checks that a plan has the memory of every group that a rank is in.
#include "common/plan/memory/group_plan.h"

#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/plan/memory/memory_plan.h"
#include "common/plan/memory/plan_jobs_for_testing.h"
#include "common/transport/shared_memory/group_memory.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// Groups, and pairs of ranks.
struct Planned {
  uint64_t groups = 0;
  double own = 0;
  double others = 0;

  friend bool operator==(const Planned&, const Planned&) = default;
};

void PrintTo(const Planned& planned, std::ostream* out) {
  *out << planned.groups << " groups, " << planned.own << " pairs of its own, " << planned.others
       << " of others";
}

Planned PlannedOf(const MemoryPlan& plan) {
  std::map<std::string, uint64_t> parts = ByName(plan.worker);
  const auto pairs = [&](const char* name) {
    return static_cast<double>(parts[name]) / static_cast<double>(kPairBytes);
  };
  return {parts["groups of ranks"] / kGroupBytes, pairs("rings to other ranks, if on one machine"),
          pairs("rings that other ranks have made, if on one machine")};
}

Planned PlannedOf(const v1::JobSpec& spec) { return PlannedOf(PlanOf(spec)); }

TEST(GroupPlanTest, OneRankHasNoGroups) {
  EXPECT_EQ(PlannedOf(Gpt("workers: 1")), Planned());
  EXPECT_EQ(PlannedOf(Gpt()), Planned());
}

TEST(GroupPlanTest, AllRanksAreAGroup) {
  for (const int ranks : {2, 8, 56}) {
    const double half = (ranks - 1) / 2.0;
    for (const char* zero : {"", "parallelism { zero { stage: 1 } }",
                             "parallelism { zero { stage: 3 } }", "stop { evaluate_only: true }"}) {
      EXPECT_EQ(PlannedOf(Gpt(absl::StrCat("workers: ", ranks, " ", zero))),
                (Planned{1, half, half}))
          << zero;
    }
  }
}

// World, shard group, replicas.
TEST(GroupPlanTest, ShardGroupsAndReplicasAreGroups) {
  EXPECT_EQ(PlannedOf(Gpt("workers: 8 parallelism { zero { stage: 2 shard: 2 } }")),
            (Planned{3, (7 + 1 + 3) / 2.0, (7 + 1 + 3) / 2.0}));
}

// A job that may become smaller has as many peers as ever while it is whole.
TEST(GroupPlanTest, AllRanksOfAJobThatMayBecomeSmallerCount) {
  EXPECT_EQ(PlannedOf(Gpt("workers: 8 min_workers: 2 parallelism { zero { stage: 2 } }")),
            (Planned{1, 3.5, 3.5}));
}

std::string Heads(int kv_heads) {
  return absl::StrCat(
      "model { transformer { layers: 2 width: 64 heads: 8 kv_heads: ", kv_heads,
      " context: 32 } } data { sequences { path: 't' } } batch_size: 8 optimizer ",
      "{ name: 'sgd' learning_rate: 1 } update { dense: ALL_REDUCE sparse: ", "ALL_REDUCE } ");
}

// World, tensor group, data group, and the ranks that share a head of keys and values.
TEST(GroupPlanTest, TensorRanksAreInGroups) {
  EXPECT_EQ(PlannedOf(Job(Heads(8) + "workers: 8 parallelism { tensor: 4 }")),
            (Planned{3, (7 + 3 + 1) / 2.0, (7 + 3 + 1) / 2.0}));
  EXPECT_EQ(PlannedOf(Job(Heads(2) + "workers: 8 parallelism { tensor: 4 }")),
            (Planned{4, (7 + 3 + 1 + 1) / 2.0, (7 + 3 + 1 + 1) / 2.0}));
  EXPECT_EQ(PlannedOf(Job(Heads(2) + "workers: 4 parallelism { tensor: 4 }")),
            (Planned{3, (3 + 3 + 1) / 2.0, (3 + 3 + 1) / 2.0}));
}

// World, data group, stage group, and the two stages with the tied head.
TEST(GroupPlanTest, StagesAreInGroups) {
  const v1::JobSpec spec = Gpt("workers: 4 micro_batches: 2 parallelism { pipeline: 2 }");
  const std::vector<MemoryPlan> stages = PlanMemoryOfStages(spec, SizeOfData(spec.data()));
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(PlannedOf(stages[0]), (Planned{4, 2.5 + 0.5 + 1 + 1, 0.5 + 0.5}));
  EXPECT_EQ(PlannedOf(stages[1]), (Planned{4, 0.5 + 0.5, 2.5 + 0.5 + 1 + 1}));
}

constexpr char kRows[] =
    "model { deep_fm { embedding_dim: 15 } } optimizer { name: 'sgd' learning_rate: 0.1 } "
    "data { synthetic_clicks { examples: 100000 fields: 8 cardinality: 1000 } } batch_size: 64 "
    "stop { epochs: 1 } workers: 16 ";

// The shard group has rings of its own for rows.
TEST(GroupPlanTest, RowsHaveAGroupOfTheirOwn) {
  const std::string all_reduce = absl::StrCat(kRows, "update { dense: ALL_REDUCE ");
  EXPECT_EQ(PlannedOf(Job(all_reduce + "sparse: ALL_REDUCE }")), (Planned{1, 7.5, 7.5}));
  const std::string zero = "parallelism { zero { stage: 1 } }";
  EXPECT_EQ(PlannedOf(Job(absl::StrCat(all_reduce, "sparse: ALL_REDUCE partitions: 16 } ", zero))),
            (Planned{2, 15, 15}));
  EXPECT_EQ(PlannedOf(Job(absl::StrCat(all_reduce, "sparse: PARAMETER_SERVER } ", zero))),
            (Planned{1, 7.5, 7.5}));
  EXPECT_EQ(PlannedOf(Job(absl::StrCat(all_reduce, "sparse: ALL_REDUCE } ",
                                       "parallelism { zero { stage: 1 shard: 4 } }"))),
            (Planned{4, (15 + 3 + 3 + 3) / 2.0, (15 + 3 + 3 + 3) / 2.0}));
}

// Calls of data ranks within layers do not mix with those of gradients.
TEST(GroupPlanTest, DataRanksThatCountChoicesTogetherAreAGroupMore) {
  v1::JobSpec spec = Gpt("workers: 4");
  v1::MoeSpec& moe = *spec.mutable_model()->mutable_transformer()->mutable_moe();
  moe.set_experts(4);
  moe.set_top_k(2);
  moe.set_auxiliary_loss(0.1f);
  EXPECT_EQ(PlannedOf(spec), (Planned{1, 1.5, 1.5}));
  moe.set_auxiliary_scope(v1::MoeSpec::GLOBAL_BATCH);
  EXPECT_EQ(PlannedOf(spec), (Planned{2, 3, 3}));
  spec.mutable_parallelism()->set_tensor(2);
  // World, tensor group, data group, and the latter once more.
  EXPECT_EQ(PlannedOf(spec), (Planned{4, (3 + 1 + 1 + 1) / 2.0, (3 + 1 + 1 + 1) / 2.0}));
}

// On servers ranks meet only if some compute the model together.
TEST(GroupPlanTest, RanksOfAModelOnServersAreInGroups) {
  v1::JobSpec spec = Gpt("workers: 8 micro_batches: 2");
  spec.clear_update();
  EXPECT_EQ(PlannedOf(spec), Planned());
  spec.mutable_parallelism()->set_tensor(2);
  EXPECT_EQ(PlannedOf(spec), (Planned{3, (7 + 1 + 3) / 2.0, (7 + 1 + 3) / 2.0}));
  spec.mutable_parallelism()->set_pipeline(2);
  const std::vector<MemoryPlan> stages = PlanMemoryOfStages(spec, SizeOfData(spec.data()));
  // World, tensor, data, pipeline, and tied group, and the data rank's.
  EXPECT_EQ(PlannedOf(stages[0]),
            (Planned{6, 4 + 1.5 + 0.5 + 0.5 + 1 + 1 + 2.5, 1.5 + 0.5 + 0.5 + 0.5}));
}

TEST(GroupPlanTest, ContextRanksOnServersAreInGroups) {
  v1::JobSpec spec = Gpt("workers: 8 parallelism { context: 2 }");
  spec.clear_update();
  // World and context group; with tensor ranks also theirs, the data group and the data rank's.
  EXPECT_EQ(PlannedOf(spec), (Planned{2, (7 + 1) / 2.0, (7 + 1) / 2.0}));
  spec.mutable_parallelism()->set_tensor(2);
  EXPECT_EQ(PlannedOf(spec), (Planned{5, (7 + 1 + 1 + 3 + 3) / 2.0, (7 + 1 + 1 + 3 + 3) / 2.0}));
}

}  // namespace
}  // namespace muster

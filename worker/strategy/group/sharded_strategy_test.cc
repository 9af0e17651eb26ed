#include "worker/strategy/group/sharded_strategy.h"

#include <atomic>
#include <cmath>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "common/base/clock.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/memory_storage.h"
#include "common/checkpoint/partition_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/checkpoint.pb.h"
#include "proto/cluster_service.pb.h"
#include "proto/schema.pb.h"
#include "worker/collectives/host/ranks_for_testing.h"
#include "worker/nn/loss_scaler.h"
#include "worker/strategy/group/test_manifest.h"
#include "worker/strategy/row_keys_for_testing.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

constexpr int kModelUnits = 3;
constexpr int64_t kUnitElements = 40;

v1::TablesSchema ModelSchema(uint64_t seed = 0) {
  v1::TablesSchema schema;
  schema.set_seed(seed);
  for (uint32_t unit = 0; unit < kModelUnits; ++unit) {
    v1::TensorSchema* tensor = schema.add_tensors();
    tensor->set_name(std::string(1, 'a' + unit));
    tensor->add_shape(kUnitElements);
    tensor->set_unit(unit);
    tensor->mutable_initializer()->set_kind(v1::Initializer::UNIFORM);
    tensor->mutable_initializer()->set_scale(1);
  }
  v1::SparseTableSchema* table = schema.add_sparse();
  table->set_name("rows");
  table->set_dim(2);
  table->mutable_initializer()->set_kind(v1::Initializer::NORMAL);
  table->mutable_initializer()->set_scale(1);
  schema.set_partitions(3);
  schema.set_block_bytes(64);
  schema.mutable_optimizer()->set_name("adam");
  schema.mutable_optimizer()->set_learning_rate(0.1);
  schema.set_total_steps(100);
  return schema;
}

// The parts of one rank's task that outlive its strategy.
class ShardedStrategyTest : public ::testing::Test {
 protected:
  ShardedStrategyTest() {
    order_.set_job_id("job");
    order_.set_generation(2);
    order_.set_checkpoint_root("/root");
    v1::UpdateSpec* update = order_.mutable_spec()->mutable_update();
    update->set_dense(v1::UpdateSpec::ALL_REDUCE);
    update->set_sparse(v1::UpdateSpec::ALL_REDUCE);
    update->set_first_bucket_bytes(64);
    update->set_bucket_bytes(200);
  }

  std::unique_ptr<ShardedStrategy> Make(uint64_t seed = 0) { return MakeOn(storage_, seed); }
  std::unique_ptr<ShardedStrategy> MakeOn(CheckpointStorage& storage, uint64_t seed = 0) {
    ShardedDependencies dependencies;
    dependencies.storage = &storage;
    dependencies.clock = &clock_;
    return ShardedStrategy::Create(order_, ModelSchema(seed), {}, std::move(dependencies)).value();
  }

  // From here on the job searches for a loss scale, which doubles with each step.
  void InF16() {
    order_.mutable_spec()->set_workers(2);
    order_.mutable_spec()->mutable_compute()->set_type(v1::ComputeSpec::F16);
    order_.mutable_spec()->mutable_compute()->set_loss_scale_window(1);
  }

  // What a rank gives in a step is a function of clock and rank alone.
  static absl::Status Begin(ShardedStrategy& strategy, MicroBatch& batch) {
    const uint64_t clock = *strategy.replica_clock();
    const int rank = strategy.communicator()->rank();
    if (absl::Status status = strategy.BeginStep(clock); !status.ok()) return status;
    batch.sparse.resize(1);
    batch.sparse[0].keys = {clock, clock + 1 + rank};
    if (absl::Status status = strategy.LookUp(batch); !status.ok()) return status;
    batch.sparse[0].gradients = {1, 2, 3, static_cast<float>(rank)};
    if (absl::Status status = strategy.BeforeBackward(4, SeriesPosition::kLast); !status.ok()) {
      return status;
    }
    for (int unit = 0; unit < kModelUnits; ++unit) {
      for (int64_t i = 0; i < kUnitElements; ++i) {
        strategy.gradients()[unit][i] =
            (static_cast<float>((clock + rank + i) % 5) - 2) * strategy.loss_scale();
      }
    }
    return absl::OkStatus();
  }

  static absl::Status Step(ShardedStrategy& strategy) {
    MicroBatch batch;
    if (absl::Status status = Begin(strategy, batch); !status.ok()) return status;
    for (int unit = kModelUnits - 1; unit >= 0; --unit) {
      if (absl::Status status = strategy.GradientReady(unit); !status.ok()) return status;
    }
    if (absl::Status status = strategy.PushRows(batch); !status.ok()) return status;
    return strategy.EndStep();
  }

  static std::vector<float> Weights(const ShardedStrategy& strategy) {
    return {strategy.shard_state().weights().begin(), strategy.shard_state().weights().end()};
  }

  // Weights after that many steps of that many ranks.
  std::vector<float> Undisturbed(int size, uint64_t steps) {
    TestRanks ranks(size);
    std::vector<float> weights;
    ranks.Run([&](std::unique_ptr<Communicator> communicator) {
      auto strategy = Make();
      ASSERT_EQ(strategy->Join(std::move(communicator), absl::nullopt), absl::OkStatus());
      while (*strategy->replica_clock() < steps) ASSERT_EQ(Step(*strategy), absl::OkStatus());
      if (strategy->communicator()->rank() == 0) weights = Weights(*strategy);
    });
    return weights;
  }

  RealClock clock_;
  MemoryStorage storage_;
  v1::TaskOrder order_;
};

// On all ranks, whose gradients did not.
TEST_F(ShardedStrategyTest, AStepInWhichAnyRankOverflowedIsLeftOutByAll) {
  InF16();
  v1::TablesSchema schema = ModelSchema();
  schema.clear_sparse();
  // Steps 0, 1, …, of which each names the ranks whose gradients overflow.
  const auto run = [&](int size, const std::vector<std::vector<int>>& overflows) {
    TestRanks ranks(size);
    absl::Mutex mutex;
    std::vector<float> weights;
    ranks.Run([&](std::unique_ptr<Communicator> communicator) {
      ShardedDependencies dependencies;
      dependencies.storage = &storage_;
      dependencies.clock = &clock_;
      auto strategy = ShardedStrategy::Create(order_, schema, {}, std::move(dependencies)).value();
      const int rank = communicator->rank();
      ASSERT_EQ(strategy->Join(std::move(communicator), absl::nullopt), absl::OkStatus());
      ASSERT_EQ(strategy->Start().value(), 0);
      float expected = LossScaler::kFirst;
      for (size_t step = 0; step < overflows.size(); ++step) {
        ASSERT_EQ(strategy->BeginStep(step), absl::OkStatus());
        ASSERT_EQ(strategy->BeforeBackward(4, SeriesPosition::kLast), absl::OkStatus());
        EXPECT_EQ(strategy->loss_scale(), expected);
        for (int unit = 0; unit < kModelUnits; ++unit) {
          for (float& gradient : strategy->gradients()[unit]) {
            gradient = static_cast<float>(rank + 1) * expected;
          }
        }
        for (const int overflowed : overflows[step]) {
          if (overflowed == rank) strategy->gradients()[1][2] = INFINITY;
        }
        for (int unit = kModelUnits - 1; unit >= 0; --unit) {
          ASSERT_EQ(strategy->GradientReady(unit), absl::OkStatus());
        }
        ASSERT_EQ(strategy->EndStep(), absl::OkStatus());
        expected *= overflows[step].empty() ? 2 : 0.5f;
      }
      EXPECT_EQ(strategy->shard_state().clock(), overflows.size());
      absl::MutexLock lock(&mutex);
      if (rank == 0) weights = Weights(*strategy);
    });
    return weights;
  };
  const std::vector<float> untouched = run(2, {});
  const std::vector<float> one = run(2, {{}});
  EXPECT_NE(one, untouched);
  EXPECT_EQ(run(1, {{0}, {0}}), untouched);
  EXPECT_EQ(run(2, {{1}, {0, 1}}), untouched);
  EXPECT_EQ(run(2, {{}, {1}}), one);
  EXPECT_EQ(run(2, {{}, {0}, {0, 1}}), one);
}

// The newcomer's first one would spoil all ranks' sums.
TEST_F(ShardedStrategyTest, AReplicasLossScaleComesWithIt) {
  InF16();
  std::vector<std::unique_ptr<ShardedStrategy>> strategies;
  for (int rank = 0; rank < 2; ++rank) strategies.push_back(Make());
  {
    TestRanks ranks(1);
    ranks.Run([&](std::unique_ptr<Communicator> communicator) {
      ASSERT_EQ(strategies[0]->Join(std::move(communicator), absl::nullopt), absl::OkStatus());
      // The scale doubles with each.
      for (int step = 0; step < 3; ++step) ASSERT_EQ(Step(*strategies[0]), absl::OkStatus());
    });
  }
  TestRanks ranks(2);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    ShardedStrategy& strategy = *strategies[communicator->rank()];
    ASSERT_EQ(strategy.Join(std::move(communicator), 0), absl::OkStatus());
    EXPECT_EQ(strategy.loss_scale(), 8 * LossScaler::kFirst);
    ASSERT_EQ(Step(strategy), absl::OkStatus());
    EXPECT_EQ(strategy.loss_scale(), 16 * LossScaler::kFirst);
    strategy.Leave();
  });
}

TEST_F(ShardedStrategyTest, BeginsOnlyAfterTheWorkersHaveMet) {
  auto strategy = Make();
  EXPECT_EQ(strategy->replica_clock(), absl::nullopt);
  EXPECT_EQ(strategy->Start().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(strategy->BeginStep(0).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(strategy->Cut(0).status().code(), absl::StatusCode::kFailedPrecondition);
  TestRanks ranks(1);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    ASSERT_EQ(strategy->Join(std::move(communicator), absl::nullopt), absl::OkStatus());
    EXPECT_EQ(strategy->Start().value(), 0);
    EXPECT_THAT(strategy->replica_clock(), Optional(0));
    EXPECT_EQ(strategy->BeginStep(1).code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(strategy->BeginStep(0), absl::OkStatus());
    strategy->Leave();
    EXPECT_EQ(strategy->BeginStep(0).code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(strategy->replica_clock(), Optional(0));
  });
}

TEST_F(ShardedStrategyTest, PlansAreComparedByTheirFingerprint) {
  const uint64_t fingerprint = Make()->bucket_plan_fingerprint();
  EXPECT_EQ(Make()->bucket_plan_fingerprint(), fingerprint);
  order_.mutable_spec()->mutable_update()->set_bucket_bytes(100);
  EXPECT_NE(Make()->bucket_plan_fingerprint(), fingerprint);
}

TEST_F(ShardedStrategyTest, ReplicasStayEqual) {
  TestRanks ranks(3);
  absl::Mutex mutex;
  std::vector<std::vector<float>> weights(3);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    auto strategy = Make();
    ASSERT_EQ(strategy->Join(std::move(communicator), absl::nullopt), absl::OkStatus());
    for (int step = 0; step < 5; ++step) ASSERT_EQ(Step(*strategy), absl::OkStatus());
    EXPECT_THAT(strategy->replica_clock(), Optional(5));
    EXPECT_THAT(KeysOf(strategy->shard_state(), 0), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
    absl::MutexLock lock(&mutex);
    weights[strategy->communicator()->rank()] = Weights(*strategy);
  });
  EXPECT_EQ(weights[1], weights[0]);
  EXPECT_EQ(weights[2], weights[0]);
  EXPECT_NE(weights[0], Undisturbed(3, 4));
}

// As on machines whose C libraries differ in a last bit; here in all.
TEST_F(ShardedStrategyTest, AllBeginWithTheInitialValuesOfOne) {
  TestRanks ranks(3);
  absl::Mutex mutex;
  std::vector<std::vector<float>> weights(3);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    auto strategy = Make(communicator->rank());
    ASSERT_EQ(strategy->Join(std::move(communicator), absl::nullopt), absl::OkStatus());
    absl::MutexLock lock(&mutex);
    weights[strategy->communicator()->rank()] = Weights(*strategy);
  });
  EXPECT_EQ(weights[0], Undisturbed(1, 0));
  EXPECT_EQ(weights[1], weights[0]);
  EXPECT_EQ(weights[2], weights[0]);
}

// Rank 1 dies after its first bucket has left, in step 3; a newcomer takes its place.
TEST_F(ShardedStrategyTest, SurvivorsTakeTheStepBackAndGoOnWithANewcomer) {
  const std::vector<float> undisturbed = Undisturbed(3, 6);
  std::vector<std::unique_ptr<ShardedStrategy>> strategies(3);
  for (auto& strategy : strategies) strategy = Make();
  TestRanks before(3);
  before.Run([&](std::unique_ptr<Communicator> communicator) {
    const int rank = communicator->rank();
    ShardedStrategy& strategy = *strategies[rank];
    ASSERT_EQ(strategy.Join(std::move(communicator), absl::nullopt), absl::OkStatus());
    for (int step = 0; step < 3; ++step) ASSERT_EQ(Step(strategy), absl::OkStatus());
    before.AwaitAll();
    if (rank != 1) {
      const std::vector<float> weights = Weights(strategy);
      EXPECT_EQ(Step(strategy).code(), absl::StatusCode::kUnavailable);
      EXPECT_EQ(Weights(strategy), weights);
      EXPECT_THAT(strategy.replica_clock(), Optional(3));
      strategy.Leave();
      return;
    }
    MicroBatch batch;
    ASSERT_EQ(Begin(strategy, batch), absl::OkStatus());
    ASSERT_EQ(strategy.GradientReady(2), absl::OkStatus());
    before.Kill(1);
    strategies[1].reset();
  });

  strategies[1] = Make();
  EXPECT_EQ(strategies[1]->replica_clock(), absl::nullopt);
  TestRanks after(3);
  after.Run([&](std::unique_ptr<Communicator> communicator) {
    ShardedStrategy& strategy = *strategies[communicator->rank()];
    ASSERT_EQ(strategy.Join(std::move(communicator), 0), absl::OkStatus());
    EXPECT_EQ(strategy.Start().value(), 3);
    while (*strategy.replica_clock() < 6) ASSERT_EQ(Step(strategy), absl::OkStatus());
    EXPECT_EQ(Weights(strategy), undisturbed);
    strategy.Leave();
  });
}

// One rank has finished the step that the others have not.
TEST_F(ShardedStrategyTest, TheMostAdvancedReplicaWins) {
  const std::vector<float> undisturbed = Undisturbed(2, 4);
  std::vector<std::unique_ptr<ShardedStrategy>> strategies(2);
  for (auto& strategy : strategies) strategy = Make();
  TestRanks before(2);
  before.Run([&](std::unique_ptr<Communicator> communicator) {
    ShardedStrategy& strategy = *strategies[communicator->rank()];
    ASSERT_EQ(strategy.Join(std::move(communicator), absl::nullopt), absl::OkStatus());
    for (int step = 0; step < 2; ++step) ASSERT_EQ(Step(strategy), absl::OkStatus());
    strategy.Leave();
  });
  // Rank 0 falls a step behind: it is made anew from the order's beginning, one step on.
  auto behind = Make();
  TestRanks alone(2);
  std::unique_ptr<ShardedStrategy> other = Make();
  alone.Run([&](std::unique_ptr<Communicator> communicator) {
    ShardedStrategy& strategy = communicator->rank() == 0 ? *behind : *other;
    ASSERT_EQ(strategy.Join(std::move(communicator), absl::nullopt), absl::OkStatus());
    ASSERT_EQ(Step(strategy), absl::OkStatus());
    strategy.Leave();
  });
  strategies[0] = std::move(behind);
  EXPECT_THAT(strategies[0]->replica_clock(), Optional(1));
  TestRanks after(2);
  after.Run([&](std::unique_ptr<Communicator> communicator) {
    ShardedStrategy& strategy = *strategies[communicator->rank()];
    ASSERT_EQ(strategy.Join(std::move(communicator), 1), absl::OkStatus());
    EXPECT_EQ(strategy.Start().value(), 2);
    while (*strategy.replica_clock() < 4) ASSERT_EQ(Step(strategy), absl::OkStatus());
    EXPECT_EQ(Weights(strategy), undisturbed);
    strategy.Leave();
  });
}

// The source dies while it sends: a newcomer has nothing then, an equal rank keeps what it had.
TEST_F(ShardedStrategyTest, AJoinThatFailsLeavesAWholeReplicaOrNone) {
  std::vector<std::unique_ptr<ShardedStrategy>> strategies(3);
  for (auto& strategy : strategies) strategy = Make();
  TestRanks before(3);
  before.Run([&](std::unique_ptr<Communicator> communicator) {
    ShardedStrategy& strategy = *strategies[communicator->rank()];
    ASSERT_EQ(strategy.Join(std::move(communicator), absl::nullopt), absl::OkStatus());
    for (int step = 0; step < 2; ++step) ASSERT_EQ(Step(strategy), absl::OkStatus());
    strategy.Leave();
  });
  const std::vector<float> weights = Weights(*strategies[1]);
  strategies[2] = Make();
  TestRanks during(3);
  during.Run([&](std::unique_ptr<Communicator> communicator) {
    const int rank = communicator->rank();
    if (rank == 0) {
      // All that a source says first, and no more.
      std::vector<uint64_t> head = {2, 3};
      CollectiveCall call;
      call.kind = Collective::kBroadcast;
      call.dtype = DType::kUint8;
      call.in = head.data();
      call.out = head.data();
      call.count = head.size() * sizeof(uint64_t);
      ASSERT_EQ(communicator->Run(call), absl::OkStatus());
      during.Kill(0);
      return;
    }
    const absl::Status joined = strategies[rank]->Join(std::move(communicator), 0);
    EXPECT_EQ(joined.code(), absl::StatusCode::kUnavailable);
  });
  EXPECT_THAT(strategies[1]->replica_clock(), Optional(2));
  EXPECT_EQ(Weights(*strategies[1]), weights);
  EXPECT_EQ(strategies[2]->replica_clock(), absl::nullopt);
}

TEST_F(ShardedStrategyTest, AGroupMayShrinkAndGrowBetweenSteps) {
  std::vector<std::unique_ptr<ShardedStrategy>> strategies(3);
  for (auto& strategy : strategies) strategy = Make();
  uint64_t end = 0;
  for (const int size : {3, 2, 1, 3}) {
    end += 2;
    TestRanks ranks(size);
    ranks.Run([&](std::unique_ptr<Communicator> communicator) {
      ShardedStrategy& strategy = *strategies[communicator->rank()];
      const absl::optional<int> source = end == 2 ? absl::nullopt : absl::optional<int>(0);
      ASSERT_EQ(strategy.Join(std::move(communicator), source), absl::OkStatus());
      while (strategy.replica_clock() < end) ASSERT_EQ(Step(strategy), absl::OkStatus());
      strategy.Leave();
    });
  }
  EXPECT_EQ(Weights(*strategies[1]), Weights(*strategies[0]));
  EXPECT_EQ(Weights(*strategies[2]), Weights(*strategies[0]));
  EXPECT_EQ(KeysOf(strategies[2]->shard_state(), 0), KeysOf(strategies[0]->shard_state(), 0));
}

TEST_F(ShardedStrategyTest, CutsAreDealtToRanksAndRestoreInAnyWorld) {
  InF16();
  v1::CheckpointManifest manifest;
  std::atomic<bool> committed = false;
  TestRanks ranks(2);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    auto strategy = Make();
    const int rank = communicator->rank();
    ASSERT_EQ(strategy->Join(std::move(communicator), absl::nullopt), absl::OkStatus());
    for (int step = 0; step < 3; ++step) ASSERT_EQ(Step(*strategy), absl::OkStatus());
    EXPECT_EQ(strategy->Cut(2).status().code(), absl::StatusCode::kFailedPrecondition);
    const StrategyCounters before = strategy->counters();
    const std::vector<PartitionFile> files = strategy->Cut(3).value().by_partition;
    ASSERT_EQ(files.size(), 3);
    // Nobody goes on before rank 0, who has the cut committed.
    if (rank == 0) committed = true;
    ASSERT_EQ(strategy->EndCut(CutEnd::kCommitted).value(), CutEnd::kCommitted);
    EXPECT_TRUE(committed);
    // Training goes on, and what a cut moved is no step's.
    ASSERT_EQ(Step(*strategy), absl::OkStatus());
    EXPECT_EQ(strategy->counters().bytes_sent - before.bytes_sent, before.bytes_sent / 3);
    if (rank != 1) return;
    manifest = TestManifest(ModelSchema(), 3, files);
  });
  ASSERT_EQ(WriteManifest(storage_, "/root/job/3", manifest), absl::OkStatus());
  ASSERT_EQ(VerifyCheckpoint(storage_, "/root/job/3"), absl::OkStatus());
  // The loss scale is in one of the files, of which rank 0 wrote two, as every slot's.
  int with_scales = 0;
  for (const v1::CheckpointFile& file : manifest.files()) {
    const auto reader =
        PartitionFileReader::Open(storage_, JoinUri("/root/job/3", file.path())).value();
    if (reader->header().loss_scales_size() == 0) continue;
    ++with_scales;
    ASSERT_EQ(reader->header().loss_scales_size(), 2);
    EXPECT_EQ(reader->header().loss_scales(1).scale(), 8 * LossScaler::kFirst);
  }
  EXPECT_EQ(with_scales, 1);

  order_.set_restore_uri("/root/job/3");
  order_.set_start_clock(3);
  const std::vector<float> resumed = Undisturbed(2, 6);
  order_.clear_restore_uri();
  EXPECT_EQ(resumed, Undisturbed(2, 6));
}

// What one rank cannot write fails the cut for all, who agree on it, and train on.
TEST_F(ShardedStrategyTest, ACutThatOneRankCannotWriteIsGivenUpByAll) {
  MemoryStorage blocked;
  // In the place of a folder.
  ASSERT_EQ(WriteFile(blocked, "/root/job", "x"), absl::OkStatus());
  TestRanks ranks(3);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    const int rank = communicator->rank();
    auto strategy = rank == 1 ? MakeOn(blocked) : Make();
    ASSERT_EQ(strategy->Join(std::move(communicator), absl::nullopt), absl::OkStatus());
    ASSERT_EQ(Step(*strategy), absl::OkStatus());
    const CutFiles files = strategy->Cut(1).value();
    EXPECT_TRUE(files.by_partition.empty());
    EXPECT_THAT(files.failure, testing::HasSubstr("rank 1 could not write its part of a cut"));
    EXPECT_EQ(strategy->EndCut(CutEnd::kTryAgain).value(), CutEnd::kTryAgain);
    // What rank 0 could not have committed is given up by all, too.
    const CutEnd mine = rank == 0 ? CutEnd::kTryAgain : CutEnd::kCommitted;
    ASSERT_EQ(Step(*strategy), absl::OkStatus());
    EXPECT_FALSE(storage_.Exists("/root/job/1").value()) << "what others wrote goes";
    if (rank == 1) ASSERT_EQ(blocked.DeleteRecursively("/root/job"), absl::OkStatus());
    EXPECT_EQ(strategy->Cut(2).value().by_partition.size(), 3);
    EXPECT_EQ(strategy->EndCut(mine).value(), CutEnd::kTryAgain);
    EXPECT_EQ(Step(*strategy), absl::OkStatus());
  });
  EXPECT_FALSE(storage_.Exists("/root/job/2").value());
}

TEST_F(ShardedStrategyTest, ACheckpointThatIsNotThereEndsTheJoin) {
  order_.set_restore_uri("/root/job/9");
  TestRanks ranks(1);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    auto strategy = Make();
    EXPECT_EQ(strategy->Join(std::move(communicator), absl::nullopt).code(),
              absl::StatusCode::kNotFound);
    EXPECT_EQ(strategy->replica_clock(), absl::nullopt);
  });
}

TEST_F(ShardedStrategyTest, ReadingParametersBetweenStepsMovesNothing) {
  TestRanks ranks(2);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    auto strategy = Make();
    ASSERT_EQ(strategy->Join(std::move(communicator), absl::nullopt), absl::OkStatus());
    const uint64_t sent = strategy->communicator()->traffic().sent;
    ASSERT_EQ(strategy->BeginStep(0), absl::OkStatus());
    MicroBatch batch;
    batch.sparse.resize(1);
    batch.sparse[0].keys = {1, 2, 3};
    ASSERT_EQ(strategy->Prefetch(batch), absl::OkStatus());
    ASSERT_EQ(strategy->LookUp(batch), absl::OkStatus());
    EXPECT_EQ(batch.sparse[0].rows.size(), 6);
    EXPECT_EQ(strategy->communicator()->traffic().sent, sent);
    ASSERT_EQ(Step(*strategy), absl::OkStatus());
  });
}

}  // namespace
}  // namespace muster

// Tests that ranks on emulated devices make the same steps under all ZeRO stages: as stage 0 does,
// as one process on the joined batch does, and on from each other's checkpoints.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/memory_storage.h"
#include "common/mesh/zero.h"
#include "common/partition/stage_holding.h"
#include "common/partition/unit_gathers.h"
#include "common/partition/unit_places.h"
#include "common/plan/device_shard_plan.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/checkpoint.pb.h"
#include "proto/schema.pb.h"
#include "worker/collectives/host/host_communicator.h"
#include "worker/collectives/transport/in_process_transport.h"
#include "worker/models/create_model.h"
#include "worker/runtime/device/cpu_reference_for_testing.h"
#include "worker/runtime/device/device_rank_for_testing.h"
#include "worker/strategy/group/test_manifest.h"
#include "worker/strategy/group/test_ranks.h"
#include "worker/strategy/shard_state.h"
#include "worker/strategy/tables_schema.h"

namespace muster {
namespace {

constexpr int64_t kVocabulary = 29;
constexpr int64_t kLength = 7;
constexpr uint64_t kSteps = 3;
// Divisible by all numbers of ranks.
constexpr int64_t kSequences = 12;

// With a tied head and biases; and with a head of its own, and fewer tensors in a unit.
const char kTied[] = "layers: 2 width: 16 heads: 2 context: 7 dropout: 0.1";
const char kSeparate[] =
    "layers: 2 width: 12 heads: 3 context: 7 norm: RMS_NORM positions: ROTARY activation: SWIGLU "
    "no_biases: true separate_head: true";

struct Job {
  uint32_t stage = 0;
  int ranks = 1;
  // The ranks of a shard group; 0: all.
  int shard = 0;
  int micro_batches = 1;
  std::string type = "F32";
  std::string transformer = kTied;
  double max_norm = 0;
  // Memory for units that stay gathered.
  int kept_bytes = 0;
  // More of ComputeSpec.
  std::string compute;
};

v1::JobSpec SpecOf(const Job& job) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("model { transformer { ", job.transformer, " } } workers: ", job.ranks,
                   " batch_size: ", kSequences, " micro_batches: ", job.micro_batches,
                   " compute { device: CUDA type: ", job.type, " ", job.compute,
                   " } clipping { by_global_norm: ", job.max_norm,
                   " } parallelism { zero { stage: ", job.stage, " shard: ", job.shard,
                   " keep_gathered_bytes: ", job.kept_bytes, " } }",
                   R"pb(
                     update {
                       dense: ALL_REDUCE
                       sparse: ALL_REDUCE
                       # Blocks that end within tensors and slices.
                       block_bytes: 1024
                       first_bucket_bytes: 3000
                       bucket_bytes: 10000
                     }
                     # A large epsilon, or rounding in gradients that are 0 would move weights by
                     # whole steps.
                     optimizer { name: "adamw" learning_rate: 0.5 epsilon: 0.1 weight_decay: 0.1 }
                     seed: 5
                   )pb"),
      &spec));
  return spec;
}

v1::TablesSchema SchemaOf(const Job& job) {
  const v1::JobSpec spec = SpecOf(job);
  const auto model =
      CreateModel(spec.model(), spec.compute(), SequencesFor(spec, kVocabulary)).value();
  return MakeTablesSchema(model->description(), spec, /*total_steps=*/0);
}

// The results that training left.
struct Trained {
  // By step, summed over the ranks.
  std::vector<double> losses;
  std::vector<double> norms;
  // The checkpoint's, in flat order.
  std::vector<float> weights;
  std::vector<float> optimizer_state;
  std::vector<uint64_t> steps;
  // Bytes that rank 0 sent.
  uint64_t bytes_sent = 0;
  uint64_t other_bytes_sent = 0;
  float loss_scale = 1;
};

// Where a job's checkpoints are, and the one to start from.
struct Checkpoints {
  MemoryStorage storage;
  std::string restore_uri;
  uint64_t clock = 0;
  // Each training has a folder of its own.
  int trainings = 0;
};

// Reads a checkpoint as a single rank on a processor would.
void ReadCheckpoint(const Job& job, Checkpoints& checkpoints, Trained& trained) {
  const auto reader = CheckpointReader::Open(checkpoints.storage, checkpoints.restore_uri);
  ASSERT_TRUE(reader.ok()) << reader.status();
  const auto state = ShardState::Create(SchemaOf(job)).value();
  ASSERT_EQ(state->Restore(**reader, RestoreExtent::kAll, checkpoints.clock), absl::OkStatus());
  const ShardState::State all = state->state();
  trained.weights.assign(all.weights.begin(), all.weights.end());
  trained.optimizer_state.assign(all.optimizer_state.begin(), all.optimizer_state.end());
  trained.steps.assign(all.steps.begin(), all.steps.end());
}

// Trains a rank's share of each step, and cuts a checkpoint.
absl::StatusOr<std::vector<PartitionFile>> TrainRank(const Job& job, DeviceRank& rank, int number,
                                                     uint64_t steps, uint64_t begin,
                                                     absl::Mutex& mutex, Trained& trained) {
  const int64_t share = kSequences / job.ranks;
  const int64_t each = share / job.micro_batches;
  for (uint64_t step = 0; step < steps; ++step) {
    const Batch batch = RandomSequences(kSequences, kLength, kVocabulary, 50 + begin + step);
    std::vector<PlacedBatch> micro_batches;
    for (int64_t first = number * share; first < (number + 1) * share; first += each) {
      micro_batches.push_back({SequencesOf(batch, first, each), static_cast<uint64_t>(first)});
    }
    const auto result = rank.Train(micro_batches);
    if (!result.ok()) return result.status();
    absl::MutexLock lock(&mutex);
    trained.losses.resize(steps);
    trained.losses[step] += result->sums.loss_sum;
    if (number == 0) trained.norms.push_back(result->gradient_norm.value_or(-1));
  }
  if (number == 0) {
    const StrategyCounters counters = rank.strategy().counters();
    trained.bytes_sent = counters.bytes_sent;
    trained.other_bytes_sent = counters.other_bytes_sent;
    trained.loss_scale = rank.strategy().loss_scale();
  }
  const auto files = rank.strategy().Cut(begin + steps);
  if (!files.ok()) return files.status();
  EXPECT_EQ(files->failure, "");
  const auto ended = rank.strategy().EndCut(CutEnd::kCommitted);
  if (!ended.ok()) return ended.status();
  return files->by_partition;
}

// Trains `steps` steps from the checkpoint to start from, and leaves the next one.
Trained Train(const Job& job, Checkpoints& checkpoints, uint64_t steps = kSteps) {
  const v1::JobSpec spec = SpecOf(job);
  const std::string root = absl::StrCat("/checkpoints", ++checkpoints.trainings);
  Trained trained;
  absl::Mutex mutex;
  std::vector<PartitionFile> files;
  InProcessGroup group(job.ranks);
  std::vector<std::thread> ranks;
  for (int number = 0; number < job.ranks; ++number) {
    ranks.emplace_back([&, number] {
      DeviceRank::Place place;
      place.host = MakeHostCommunicator(group.Join(number), {.same_machine = true}).value();
      place.storage = &checkpoints.storage;
      place.checkpoint_root = root;
      place.restore_uri = checkpoints.restore_uri;
      place.start_clock = checkpoints.clock;
      const auto rank = DeviceRank::Create(spec, kVocabulary, std::move(place));
      ASSERT_TRUE(rank.ok()) << rank.status();
      const auto written = TrainRank(job, **rank, number, steps, checkpoints.clock, mutex, trained);
      ASSERT_TRUE(written.ok()) << written.status();
      if (number == 0) files = *written;
    });
  }
  for (std::thread& rank : ranks) rank.join();
  checkpoints.clock += steps;
  checkpoints.restore_uri = absl::StrCat(root, "/job/", checkpoints.clock);
  v1::CheckpointManifest manifest = TestManifest(SchemaOf(job), checkpoints.clock, files);
  manifest.set_rank_files(RankFiles(spec, spec.workers()));
  EXPECT_EQ(WriteManifest(checkpoints.storage, checkpoints.restore_uri, manifest),
            absl::OkStatus());
  ReadCheckpoint(job, checkpoints, trained);
  return trained;
}

Trained Train(const Job& job) {
  Checkpoints checkpoints;
  return Train(job, checkpoints);
}

void ExpectSameBits(const Trained& actual, const Trained& expected) {
  EXPECT_FALSE(actual.weights.empty());
  EXPECT_EQ(actual.losses, expected.losses);
  EXPECT_EQ(actual.weights, expected.weights);
  EXPECT_EQ(actual.optimizer_state, expected.optimizer_state);
  EXPECT_EQ(actual.steps, expected.steps);
}

void ExpectNear(const Trained& actual, const Trained& expected, double bound) {
  EXPECT_LE(RelativeDistance(actual.weights, expected.weights), bound);
  EXPECT_LE(RelativeDistance(actual.optimizer_state, expected.optimizer_state), 10 * bound);
  EXPECT_EQ(actual.steps, expected.steps);
  ASSERT_EQ(actual.losses.size(), expected.losses.size());
  for (size_t step = 0; step < expected.losses.size(); ++step) {
    EXPECT_NEAR(actual.losses[step], expected.losses[step], bound * expected.losses[step]) << step;
  }
}

// Returns the bytes that a rank sends for gradients and weights in each step.
uint64_t BytesOfStep(const Job& job) {
  const v1::TablesSchema schema = SchemaOf(job);
  const auto state = ShardState::Create(schema, {.index = 0, .count = job.ranks}).value();
  const ShardLayout& layout = state->shard_layout();
  const StageHolding holding = HoldingOfStage(job.stage);
  const int units = static_cast<int>(state->tables().tensors.back().unit) + 1;
  std::vector<int> gathers(units, 1);
  if (holding.weights == UnitPlaces::Holding::kInFlight) {
    const UnitPlaces places(layout, state->tables().tensors, *holding.weights,
                            UnitPlaces::Content::kWeights, job.kept_bytes);
    gathers = GathersOfStep(units, places, job.micro_batches);
  }
  const bool each = holding.gradients == UnitPlaces::Holding::kInFlight;
  uint64_t bytes = 0;
  for (const ShardLayout::Part& part : layout.parts()) {
    const uint64_t others = (job.ranks - 1) * part.slice;
    bytes += others * sizeof(float) * (each ? job.micro_batches : 1);
    bytes += others * SizeOf(part.compute) * gathers[part.unit];
  }
  return bytes;
}

// The number of ranks, of micro-batches, and the type.
using Parameters = std::tuple<int, int, std::string>;

class DeviceStagesTest : public ::testing::TestWithParam<Parameters> {
 protected:
  Job JobOf(uint32_t stage) const {
    const auto& [ranks, micro_batches, type] = GetParam();
    return {.stage = stage, .ranks = ranks, .micro_batches = micro_batches, .type = type};
  }
};

TEST_P(DeviceStagesTest, AllStagesMakeTheSameSteps) {
  const auto& [ranks, micro_batches, type] = GetParam();
  for (const char* const transformer : {kTied, kSeparate}) {
    std::vector<Trained> stages;
    for (const uint32_t stage : {0, 1, 2, 3}) {
      Job job = JobOf(stage);
      job.transformer = transformer;
      stages.push_back(Train(job));
      // Nothing is gathered after a step that an f16 job leaves out.
      if (stage == 0 || type == "F16") continue;
      EXPECT_EQ(stages[stage].bytes_sent, kSteps * BytesOfStep(job)) << stage;
      EXPECT_GT(stages[stage].other_bytes_sent, 0) << stage;
    }
    const double bound = type == "F32" ? 1e-5 : 1e-2;
    for (const uint32_t stage : {1, 2, 3}) ExpectNear(stages[stage], stages[0], bound);
    ExpectSameBits(stages[3], stages[2]);
    if (micro_batches == 1) ExpectSameBits(stages[2], stages[1]);
    // Two ranks' sums do not depend on their order, which all-reduces of another length choose.
    if (ranks == 2) ExpectSameBits(stages[1], stages[0]);
  }
}

INSTANTIATE_TEST_SUITE_P(Jobs, DeviceStagesTest,
                         ::testing::Values(Parameters{2, 1, "F32"}, Parameters{2, 3, "BF16"},
                                           Parameters{3, 2, "F32"}, Parameters{3, 1, "F16"},
                                           Parameters{4, 3, "F32"}, Parameters{4, 1, "BF16"}),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param), "Ranks",
                                               std::get<1>(info.param), "MicroBatches",
                                               std::get<2>(info.param));
                         });

TEST(DeviceStagesReferenceTest, StagesAreOneProcessOnTheJoinedBatch) {
  Job alone = {.ranks = 1, .micro_batches = 2, .max_norm = 0.3};
  const Trained joined = Train(alone);
  for (const uint32_t stage : {1, 2, 3}) {
    Job job = alone;
    job.stage = stage;
    job.ranks = 3;
    const Trained divided = Train(job);
    ExpectNear(divided, joined, 1e-5);
    for (size_t step = 0; step < kSteps; ++step) {
      EXPECT_GT(joined.norms[step], 0.3) << "clipping must matter";
      EXPECT_NEAR(divided.norms[step], joined.norms[step], 1e-5 * joined.norms[step]);
    }
  }
}

// One block's matrices fit, and no more.
TEST(DeviceKeptUnitsTest, UnitsThatStayGatheredAreGatheredOnceAStep) {
  Job job = {.stage = 3, .ranks = 2, .micro_batches = 3};
  const Trained dropped = Train(job);
  const uint64_t bytes = BytesOfStep(job);
  job.kept_bytes = 16000;
  const Trained kept = Train(job);
  ExpectSameBits(kept, dropped);
  EXPECT_EQ(kept.bytes_sent, kSteps * BytesOfStep(job));
  EXPECT_LT(BytesOfStep(job), bytes);
}

// Two groups of two ranks, which have replicas of the two shards.
TEST(DeviceReplicasOfShardsTest, GroupsOfShardsAddTheirSums) {
  Job job = {.ranks = 4, .micro_batches = 3, .max_norm = 0.3};
  const Trained whole = Train(job);
  job.shard = 2;
  for (const uint32_t stage : {1, 2, 3}) {
    job.stage = stage;
    ExpectNear(Train(job), whole, 1e-5);
  }
}

// What is not in the rank's own block of device memory, whose size is the plan's.
TEST(DeviceStagesMemoryTest, CommunicatorsAllocateWhatIsPlanned) {
  for (const uint32_t stage : {1, 2, 3}) {
    const Job job = {.stage = stage, .ranks = 2, .type = "BF16"};
    const v1::JobSpec spec = SpecOf(job);
    const auto state = ShardState::Create(SchemaOf(job)).value();
    const DeviceShardExtents planned =
        PlanDeviceShard(spec, state->tables().tensors, DType::kBf16).value();
    InProcessGroup group(job.ranks);
    std::vector<std::thread> ranks;
    for (int number = 0; number < job.ranks; ++number) {
      ranks.emplace_back([&, number] {
        size_t allocated = 0;
        DeviceRank::Place place;
        place.host = MakeHostCommunicator(group.Join(number), {.same_machine = true}).value();
        place.make_communicator = [&allocated](Communicator& host) {
          return std::make_unique<WatchedCommunicator>(
              host.Split(0, host.rank()).value(),
              [&allocated](size_t bytes) { allocated += bytes; });
        };
        const auto rank = DeviceRank::Create(spec, kVocabulary, std::move(place));
        ASSERT_TRUE(rank.ok()) << rank.status();
        EXPECT_EQ(allocated, planned.gathered_bytes + planned.gradient_bytes) << stage;
        EXPECT_GT(allocated, 0);
      });
    }
    for (std::thread& rank : ranks) rank.join();
  }
}

TEST(DeviceStagesRestoreTest, AnyRanksAndStageGoOnFromARanksFiles) {
  for (const uint32_t stage : {0, 1, 2, 3}) {
    const Job job = {.stage = stage, .ranks = 4, .type = "BF16"};
    Checkpoints checkpoints;
    const Trained cut = Train(job, checkpoints, 2);
    EXPECT_EQ(cut.steps, std::vector<uint64_t>(cut.steps.size(), 2));
    const std::string uri = checkpoints.restore_uri;
    for (const auto& [other_stage, ranks] :
         std::vector<std::pair<uint32_t, int>>{{0, 1}, {1, 2}, {2, 3}, {3, 2}, {3, 4}}) {
      checkpoints.restore_uri = uri;
      const Job other = {.stage = other_stage, .ranks = ranks, .type = "BF16"};
      const Trained restored = Train(other, checkpoints, 0);
      EXPECT_EQ(restored.weights, cut.weights) << stage << other_stage << ranks;
      EXPECT_EQ(restored.optimizer_state, cut.optimizer_state) << stage << other_stage << ranks;
      EXPECT_EQ(restored.steps, cut.steps);
    }
    // And trains on alike.
    checkpoints.restore_uri = uri;
    Checkpoints whole;
    const Trained through = Train(job, whole, 3);
    const Trained on = Train(job, checkpoints, 1);
    EXPECT_EQ(on.weights, through.weights) << stage;
    EXPECT_EQ(on.optimizer_state, through.optimizer_state) << stage;
  }
}

// The loss scale grows after each step until gradients overflow.
constexpr int kLossScaleSteps = 6;
TEST(DeviceStagesLossScaleTest, AStepThatOverflowsAnywhereIsLeftOutEverywhere) {
  Job job = {.ranks = 3, .micro_batches = 2, .type = "F16"};
  job.compute = "loss_scale_window: 1";
  std::vector<Trained> stages;
  for (const uint32_t stage : {0, 1, 2, 3}) {
    job.stage = stage;
    Checkpoints checkpoints;
    stages.push_back(Train(job, checkpoints, kLossScaleSteps));
    const auto left_out = std::count(stages.back().norms.begin(), stages.back().norms.end(), -1);
    EXPECT_GT(left_out, 0) << stage;
    EXPECT_LT(left_out, kLossScaleSteps) << stage;
    EXPECT_EQ(stages.back().loss_scale, stages[0].loss_scale) << stage;
    EXPECT_EQ(stages.back().steps, stages[0].steps) << stage;
  }
  ExpectSameBits(stages[3], stages[2]);
}

}  // namespace
}  // namespace muster

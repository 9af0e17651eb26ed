#include "worker/runtime/device/device_jobs_for_testing.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/manifest.h"
#include "common/mesh/job_mesh.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/checkpoint.pb.h"
#include "worker/collectives/host/host_communicator.h"
#include "worker/collectives/transport/in_process_transport_for_testing.h"
#include "worker/data/packed_batches_for_testing.h"
#include "worker/models/create_model.h"
#include "worker/runtime/device/cpu_reference_for_testing.h"
#include "worker/runtime/device/device_rank_for_testing.h"
#include "worker/strategy/group/test_manifest.h"
#include "worker/strategy/shard_state.h"
#include "worker/strategy/tables_schema.h"

namespace muster {
namespace {

// Reads a checkpoint as a single rank on a processor would.
void ReadCheckpoint(const DeviceTestJob& job, Checkpoints& checkpoints, Trained& trained) {
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
absl::StatusOr<std::vector<PartitionFile>> TrainRank(const DeviceTestJob& job, DeviceRank& rank,
                                                     int number, uint64_t steps, uint64_t begin,
                                                     absl::Mutex& mutex, Trained& trained) {
  const Mesh mesh = MeshOf(SpecOf(job));
  const int64_t share = kSequences / mesh.size(kDataAxes);
  const int data_rank = mesh.Position(number, kDataAxes);
  const int64_t each = share / job.micro_batches;
  for (uint64_t step = 0; step < steps; ++step) {
    Batch batch = RandomSequences(kSequences, job.length, kVocabulary, 50 + begin + step);
    if (job.one_token) std::fill(batch.tokens.begin(), batch.tokens.end(), 7);
    if (job.packed) PackDocuments(batch, static_cast<uint32_t>(begin + step));
    std::vector<PlacedBatch> micro_batches;
    for (int64_t first = data_rank * share; first < (data_rank + 1) * share; first += each) {
      micro_batches.push_back({SequencesOf(batch, first, each), static_cast<uint64_t>(first)});
    }
    const auto result = rank.Train(micro_batches);
    if (!result.ok()) return result.status();
    absl::MutexLock lock(&mutex);
    trained.losses.resize(steps);
    // Ranks of a layer have the same, and stages but the last none.
    if (mesh.Position(number, kLayerAxes) == 0) trained.losses[step] += result->sums.loss_sum;
    if (DividesTokens(SpecOf(job)) || mesh.Position(number, Axis::kTensor) == 0) {
      AddRouters(result->sums.router_sums, result->sums.expert_loads, trained.router_sums,
                 trained.expert_loads);
    }
    if (number == 0) trained.norms.push_back(result->gradient_norm.value_or(-1));
  }
  if (number == 0) {
    const StrategyCounters counters = rank.strategy().counters();
    trained.bytes_sent = counters.bytes_sent;
    trained.other_bytes_sent = counters.other_bytes_sent;
    trained.tensor_bytes_sent = counters.tensor_bytes_sent;
    trained.stage_bytes_sent = counters.stage_bytes_sent;
    trained.loss_scale = rank.strategy().loss_scale();
  }
  const auto files = rank.strategy().Cut(begin + steps);
  if (!files.ok()) return files.status();
  EXPECT_EQ(files->failure, "");
  const auto ended = rank.strategy().EndCut(CutEnd::kCommitted);
  if (!ended.ok()) return ended.status();
  return files->by_partition;
}

}  // namespace

v1::JobSpec SpecOf(const DeviceTestJob& job) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat(
          "model { transformer { ", job.transformer, " } } workers: ", job.ranks,
          " batch_size: ", kSequences, " micro_batches: ", job.micro_batches,
          " compute { device: CUDA type: ", job.type, " ", job.compute,
          " } clipping { by_global_norm: ", job.max_norm, " } parallelism { tensor: ", job.tensor,
          " ", job.sequence ? "" : "sequence: false", " expert: ", job.expert, " context: ",
          job.context, job.context == 1 ? "" : absl::StrCat(" context_exchange: ", job.exchange),
          " zero { stage: ", job.stage, " shard: ", job.shard,
          " keep_gathered_bytes: ", job.kept_bytes, " } ",
          job.pipeline == 1
              ? ""
              : absl::StrCat("pipeline: ", job.pipeline, " pipeline_schedule: ", job.schedule),
          " }",
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

v1::TablesSchema SchemaOf(const DeviceTestJob& job) {
  const v1::JobSpec spec = SpecOf(job);
  const auto model =
      CreateModel(spec.model(), spec.compute(), SequencesFor(spec, kVocabulary)).value();
  return MakeTablesSchema(model->description(), spec, /*total_steps=*/0);
}

Trained Train(const DeviceTestJob& job, Checkpoints& checkpoints, uint64_t steps) {
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

Trained Train(const DeviceTestJob& job) {
  Checkpoints checkpoints;
  return Train(job, checkpoints);
}

const Trained& TrainOnce(const DeviceTestJob& job) {
  static auto* const trained = new std::map<std::string, Trained>();
  const std::string key =
      absl::StrCat(job.packed, job.one_token, " ", SpecOf(job).ShortDebugString());
  const auto found = trained->find(key);
  if (found != trained->end()) return found->second;
  return trained->emplace(key, Train(job)).first->second;
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

}  // namespace muster

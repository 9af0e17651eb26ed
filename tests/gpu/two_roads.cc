#include "tests/gpu/two_roads.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/base/payload.h"
#include "common/base/philox.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/memory_storage.h"
#include "common/mesh/job_mesh.h"
#include "common/partition/dense_layout.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/parameter_service.pb.h"
#include "proto/schema.pb.h"
#include "server/shard/shard_engine.h"
#include "worker/models/create_model.h"
#include "worker/runtime/device/device_engine.h"
#include "worker/runtime/device/device_job.h"
#include "worker/strategy/no_cuts_for_testing.h"
#include "worker/strategy/strategy.h"
#include "worker/strategy/tables_schema.h"

namespace muster {
namespace {

constexpr int64_t kVocabulary = 31;
constexpr int64_t kLength = 8;
constexpr uint64_t kSeed = 9;
// Sequences of a slot in one step, in two micro-batches of this many and one less.
constexpr int64_t kMicroBatch = 2;
constexpr int64_t kSlotSequences = 2 * kMicroBatch - 1;

// Sequences [first, first + count) of a step's joined batch.
Batch StepBatch(uint64_t clock, int64_t first, int64_t count) {
  const Philox random(kSeed, "test", "tokens");
  Batch batch;
  batch.Clear();
  batch.examples = count;
  for (int64_t i = first * kLength; i < (first + count) * kLength; ++i) {
    batch.tokens.push_back(static_cast<int32_t>(random.Below(kVocabulary, i, 2 * clock)));
    batch.labels.push_back(
        i % 5 == 1 ? -1 : static_cast<int32_t>(random.Below(kVocabulary, i, 2 * clock + 1)));
  }
  return batch;
}

// Adds a slot's part of a step.
void AddSlot(uint64_t clock, int slot, std::vector<PlacedBatch>& micro_batches) {
  const int64_t first = slot * kSlotSequences;
  const int64_t second = first + kMicroBatch;
  micro_batches.push_back({StepBatch(clock, first, kMicroBatch), static_cast<uint64_t>(first)});
  micro_batches.push_back(
      {StepBatch(clock, second, kMicroBatch - 1), static_cast<uint64_t>(second)});
}

std::vector<PlacedBatch> StepOfAll(uint64_t clock) {
  std::vector<PlacedBatch> micro_batches;
  for (int slot = 0; slot < kTwoRoadsSlots; ++slot) AddSlot(clock, slot, micro_batches);
  return micro_batches;
}

std::vector<PlacedBatch> StepOfSlot(uint64_t clock, int slot) {
  std::vector<PlacedBatch> micro_batches;
  AddSlot(clock, slot, micro_batches);
  return micro_batches;
}

absl::StatusOr<std::vector<float>> JoinedWeights(DeviceRank& rank) {
  MUSTER_ASSIGN_OR_RETURN(const auto weights, rank.Weights());
  std::vector<float> joined;
  for (const std::vector<float>& tensor : weights) {
    joined.insert(joined.end(), tensor.begin(), tensor.end());
  }
  return joined;
}

// The job's only partition on an engine in this process.
class Server {
 public:
  static absl::StatusOr<std::unique_ptr<Server>> Open(const v1::TablesSchema& schema,
                                                      uint32_t blocks) {
    std::unique_ptr<Server> server(new Server(blocks));
    ShardEngine::Options options;
    options.checkpoint_storage = &server->storage_;
    MUSTER_ASSIGN_OR_RETURN(server->engine_, ShardEngine::Create(std::move(options)));
    v1::OpenTablesRequest request;
    request.set_job_id("job");
    request.set_generation(1);
    request.set_slots(kTwoRoadsSlots);
    *request.mutable_schema() = schema;
    request.mutable_update()->set_durability(v1::UpdateSpec::CHECKPOINT);
    request.add_partitions()->set_partition(0);
    request.set_checkpoint_root("/checkpoints");
    MUSTER_RETURN_IF_ERROR(server->engine_->OpenTables(request).status());
    return server;
  }

  absl::Status Push(uint32_t slot, uint64_t clock, uint64_t examples, std::vector<float> sums) {
    v1::ExchangeRequest push = Request(slot, clock);
    push.mutable_dense_push()->set_blocks(blocks_);
    push.mutable_dense_push()->set_examples(examples);
    MUSTER_RETURN_IF_ERROR(Call(push, Payload::Of(std::move(sums))).status());
    v1::ExchangeRequest close = Request(slot, clock);
    close.mutable_close()->set_examples(examples);
    return Call(close, {}).status();
  }

  absl::StatusOr<std::vector<float>> Pull(uint32_t slot, uint64_t clock) {
    v1::ExchangeRequest pull = Request(slot, clock);
    pull.mutable_dense_pull()->set_blocks(blocks_);
    MUSTER_ASSIGN_OR_RETURN(const Payload payload, Call(pull, {}));
    std::vector<float> weights(payload.size() / sizeof(float));
    payload.CopyTo(weights.data());
    return weights;
  }

 private:
  explicit Server(uint32_t blocks) : blocks_(blocks) {}

  static v1::ExchangeRequest Request(uint32_t slot, uint64_t clock) {
    v1::ExchangeRequest request;
    request.set_job_id("job");
    request.set_generation(1);
    request.set_slot(slot);
    request.set_incarnation(1);
    request.set_clock(clock);
    return request;
  }

  absl::StatusOr<Payload> Call(const v1::ExchangeRequest& request, Payload payload) {
    absl::Notification answered;
    absl::Status status;
    Payload answer;
    ExchangeCall call;
    call.request = std::make_shared<v1::ExchangeRequest>(request);
    call.payload = std::move(payload);
    call.done = [&](v1::ExchangeReply reply, Payload bytes) {
      status = absl::Status(static_cast<absl::StatusCode>(reply.code()), reply.message());
      answer = std::move(bytes);
      answered.Notify();
    };
    engine_->Execute(std::move(call));
    answered.WaitForNotification();
    if (!status.ok()) return status;
    return answer;
  }

  const uint32_t blocks_;
  MemoryStorage storage_;
  std::unique_ptr<ShardEngine> engine_;
};

// Returns where tensors lie in a flat space, by tensor; tied ones where those are that they are
// tied to.
std::vector<absl::Span<float>> TensorsIn(std::vector<float>& flat, const DenseLayout& layout,
                                         const std::vector<TensorSpec>& tensors) {
  std::vector<absl::Span<float>> spans;
  for (size_t t = 0; t < tensors.size(); ++t) {
    spans.push_back(absl::MakeSpan(flat).subspan(layout.tensor_offset(static_cast<int>(t)),
                                                 tensors[t].elements()));
  }
  return spans;
}

// Keeps a slot's parameters on the server: all are pulled when a step begins, and all gradients are
// pushed when it ends.
class ServedStrategy final : public Strategy {
 public:
  ServedStrategy(Server& server, uint32_t slot, const DenseLayout& layout,
                 const std::vector<TensorSpec>& tensors)
      : server_(server),
        slot_(slot),
        weights_(layout.elements()),
        sums_(layout.elements()),
        gradients_(TensorsIn(sums_, layout, tensors)) {
    for (const absl::Span<float> tensor : TensorsIn(weights_, layout, tensors)) {
      parameters_.push_back(tensor);
    }
  }

  absl::StatusOr<uint64_t> Start() override { return 0; }
  void SetRateFactor(double factor) override {}
  absl::Status BeginStep(uint64_t clock) override {
    clock_ = clock;
    MUSTER_ASSIGN_OR_RETURN(const std::vector<float> weights, server_.Pull(slot_, clock));
    std::copy(weights.begin(), weights.end(), weights_.begin());
    return absl::OkStatus();
  }
  absl::Status Acquire(int unit, Direction direction) override { return absl::OkStatus(); }
  void Release(int unit, Direction direction) override {}
  ModelParameters parameters() const override { return {parameters_, {}}; }
  absl::Status Prefetch(const MicroBatch& micro_batch) override { return absl::OkStatus(); }
  absl::Status LookUp(MicroBatch& micro_batch) override { return absl::OkStatus(); }
  absl::Status BeforeBackward(uint64_t examples, SeriesPosition position) override {
    examples_ = examples;
    return absl::OkStatus();
  }
  Accumulation GradientStore(int unit) const override { return Accumulation::kWrite; }
  GradientSpans gradients() const override { return gradients_; }
  float loss_scale() const override { return 1; }
  absl::Status GradientReady(int unit) override { return absl::OkStatus(); }
  absl::Status PushRows(MicroBatch& micro_batch) override { return absl::OkStatus(); }
  absl::Status EndStep() override { return server_.Push(slot_, clock_, examples_, sums_); }
  absl::StatusOr<CutFiles> Cut(uint64_t clock) override { return CutFiles(); }
  BackgroundCuts& background_cuts() override { return cuts_; }
  const LossScaler* loss_scaler() const override { return nullptr; }
  StrategyCounters counters() const override { return {}; }

 private:
  NoCuts cuts_;
  Server& server_;
  const uint32_t slot_;
  // Weights and gradients, by the layout and by tensor.
  std::vector<float> weights_;
  std::vector<float> sums_;
  const std::vector<absl::Span<float>> gradients_;
  std::vector<absl::Span<const float>> parameters_;
  uint64_t clock_ = 0;
  uint64_t examples_ = 0;
};

}  // namespace

v1::JobSpec TwoRoadsJob(const std::string& type, uint32_t stage) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        model {
          transformer {
            layers: 2
            width: 32
            heads: 4
            kv_heads: 2
            feed_forward: 48
            context: 8
            dropout: 0.1
            attention_dropout: 0.1
          }
        }
        compute { device: CUDA }
        update {
          dense: ALL_REDUCE
          sparse: ALL_REDUCE
          partitions: 1
          block_bytes: 4096
          first_bucket_bytes: 4000
          bucket_bytes: 20000
        }
        # A large epsilon, or rounding in gradients that are 0 would move weights by whole steps.
        optimizer { name: "adamw" learning_rate: 0.5 epsilon: 0.1 weight_decay: 0.1 }
        seed: 9
      )pb",
      &spec));
  EXPECT_TRUE(
      google::protobuf::TextFormat::MergeFromString("type: " + type, spec.mutable_compute()));
  spec.set_workers(kTwoRoadsSlots);
  spec.set_batch_size(kTwoRoadsSlots * kSlotSequences);
  spec.set_micro_batches(2);
  spec.mutable_parallelism()->mutable_zero()->set_stage(stage);
  return spec;
}

v1::JobSpec TwoStagesJob() {
  v1::JobSpec spec = TwoRoadsJob("F32");
  spec.mutable_model()->mutable_transformer()->set_separate_head(true);
  spec.mutable_parallelism()->set_pipeline(kTwoRoadsSlots);
  spec.set_micro_batches(2 * kTwoRoadsSlots);
  return spec;
}

absl::StatusOr<std::vector<float>> TrainAlone(const v1::JobSpec& spec) {
  v1::JobSpec whole = spec;
  // Stages have the micro-batches of one data rank.
  whole.set_workers(spec.workers() / SizeAlong(Axis::kPipeline, spec));
  whole.clear_parallelism();
  MUSTER_ASSIGN_OR_RETURN(const auto rank, DeviceRank::Create(whole, kVocabulary));
  for (uint64_t clock = 0; clock < kTwoRoadsSteps; ++clock) {
    MUSTER_RETURN_IF_ERROR(rank->Train(StepOfAll(clock)).status());
  }
  return JoinedWeights(*rank);
}

absl::StatusOr<std::vector<float>> TrainByAllReduce(const v1::JobSpec& spec,
                                                    DeviceRank::Place place) {
  const int slot = place.host->rank();
  const bool all = SizeAlong(Axis::kPipeline, spec) > 1;
  MUSTER_ASSIGN_OR_RETURN(const auto rank, DeviceRank::Create(spec, kVocabulary, std::move(place)));
  for (uint64_t clock = 0; clock < kTwoRoadsSteps; ++clock) {
    MUSTER_RETURN_IF_ERROR(rank->Train(all ? StepOfAll(clock) : StepOfSlot(clock, slot)).status());
  }
  return JoinedWeights(*rank);
}

absl::StatusOr<std::vector<float>> TrainByServer(const v1::JobSpec& spec) {
  const DatasetInfo data = SequencesFor(spec, kVocabulary);
  MUSTER_ASSIGN_OR_RETURN(const auto model, CreateModel(spec.model(), spec.compute(), data));
  const std::vector<TensorSpec>& tensors = model->description().tensors;
  const v1::TablesSchema schema = MakeTablesSchema(model->description(), spec, kTwoRoadsSteps);
  MUSTER_ASSIGN_OR_RETURN(const DenseLayout layout,
                          DenseLayout::Create(tensors, {.block_bytes = schema.block_bytes(),
                                                        .partitions = schema.partitions()}));
  MUSTER_ASSIGN_OR_RETURN(const auto server,
                          Server::Open(schema, static_cast<uint32_t>(layout.blocks().size())));
  MUSTER_ASSIGN_OR_RETURN(const DeviceOptions options, DeviceOptionsFor(spec, data, /*device=*/0));
  std::vector<std::unique_ptr<ServedStrategy>> strategies;
  std::vector<std::unique_ptr<StepEngine>> engines;
  for (int slot = 0; slot < kTwoRoadsSlots; ++slot) {
    strategies.push_back(std::make_unique<ServedStrategy>(*server, slot, layout, tensors));
    engines.emplace_back();
    MUSTER_ASSIGN_OR_RETURN(engines.back(),
                            MakeCopyingDeviceEngine(spec, options, *strategies.back()));
  }
  for (uint64_t clock = 0; clock < kTwoRoadsSteps; ++clock) {
    // Under BSP every slot reads what all have made of the clocks before.
    for (int slot = 0; slot < kTwoRoadsSlots; ++slot) {
      const std::vector<PlacedBatch> step = StepOfSlot(clock, slot);
      GivenMicroBatches micro_batches(step);
      StepSums sums;
      MUSTER_RETURN_IF_ERROR(engines[slot]->Train(clock, micro_batches, sums));
    }
  }
  MUSTER_ASSIGN_OR_RETURN(std::vector<float> flat, server->Pull(0, kTwoRoadsSteps));
  const auto weights = TensorsIn(flat, layout, tensors);
  std::vector<float> joined;
  for (size_t t = 0; t < tensors.size(); ++t) {
    if (!tensors[t].tied_to.empty()) continue;
    joined.insert(joined.end(), weights[t].begin(), weights[t].end());
  }
  return joined;
}

double WeightsDistance(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  double difference = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    norm += double{b[i]} * b[i];
  }
  return std::sqrt(difference / norm);
}

}  // namespace muster

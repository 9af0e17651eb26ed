#include "tests/gpu/two_roads.h"

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
#include "common/partition/dense_layout.h"
#include "proto/job.pb.h"
#include "proto/parameter_service.pb.h"
#include "proto/schema.pb.h"
#include "server/shard/shard_engine.h"
#include "worker/strategy/tables_schema.h"

namespace muster {
namespace {

constexpr int64_t kVocabulary = 31;
constexpr int64_t kLength = 8;
constexpr uint64_t kSeed = 9;
constexpr float kLearningRate = 0.5f;
// Sequences of a slot in one step, in two micro-batches of this many and one less.
constexpr int64_t kMicroBatch = 2;
constexpr int64_t kSlotSequences = 2 * kMicroBatch - 1;
constexpr uint32_t kBlockBytes = 4096;

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

// A slot's part of a step; returns its number of labels.
absl::StatusOr<int64_t> AddSlot(DeviceTrainer& trainer, uint64_t clock, int slot, bool last) {
  const int64_t first = slot * kSlotSequences;
  const Batch a = StepBatch(clock, first, kMicroBatch);
  const Batch b = StepBatch(clock, first + kMicroBatch, kMicroBatch - 1);
  MUSTER_RETURN_IF_ERROR(trainer.AddMicroBatch(a, first, SeriesPosition::kMoreFollow));
  MUSTER_RETURN_IF_ERROR(trainer.AddMicroBatch(
      b, first + kMicroBatch, last ? SeriesPosition::kLast : SeriesPosition::kMoreFollow));
  int64_t labels = 0;
  for (const Batch* each : {&a, &b}) {
    for (const int32_t label : each->labels) labels += label >= 0 ? 1 : 0;
  }
  return labels;
}

absl::StatusOr<DenseLayout> ServerLayout(const DeviceTrainer& trainer) {
  return DenseLayout::Create(trainer.parameters().tensors().specs,
                             {.block_bytes = kBlockBytes, .partitions = 1});
}

// From the device's places to the servers', or back.
absl::StatusOr<std::vector<float>> ReadFlat(DeviceTrainer& trainer, DeviceSpace space) {
  MUSTER_ASSIGN_OR_RETURN(const DenseLayout layout, ServerLayout(trainer));
  std::vector<float> flat(layout.elements());
  const auto& specs = trainer.parameters().tensors().specs;
  for (size_t t = 0; t < specs.size(); ++t) {
    if (!specs[t].tied_to.empty()) continue;
    const int tensor = static_cast<int>(t);
    MUSTER_RETURN_IF_ERROR(trainer.Read(
        space, tensor,
        absl::MakeSpan(flat).subspan(layout.tensor_offset(tensor), specs[t].elements())));
  }
  return flat;
}

absl::Status WriteWeights(DeviceTrainer& trainer, const std::vector<float>& flat) {
  MUSTER_ASSIGN_OR_RETURN(const DenseLayout layout, ServerLayout(trainer));
  const auto& specs = trainer.parameters().tensors().specs;
  for (size_t t = 0; t < specs.size(); ++t) {
    if (!specs[t].tied_to.empty()) continue;
    const int tensor = static_cast<int>(t);
    MUSTER_RETURN_IF_ERROR(trainer.Write(
        DeviceSpace::kWeights, tensor,
        absl::MakeConstSpan(flat).subspan(layout.tensor_offset(tensor), specs[t].elements())));
  }
  return absl::OkStatus();
}

v1::TablesSchema SchemaOf(const DeviceTrainer& trainer, const AdamOptions& optimizer) {
  ModelDescription description;
  description.tensors = trainer.parameters().tensors().specs;
  description.units = static_cast<int>(description.tensors.back().unit) + 1;
  v1::JobSpec spec;
  spec.set_seed(kSeed);
  spec.mutable_optimizer()->set_name("adamw");
  spec.mutable_optimizer()->set_learning_rate(kLearningRate);
  spec.mutable_optimizer()->set_epsilon(optimizer.epsilon);
  spec.mutable_optimizer()->set_weight_decay(optimizer.weight_decay);
  v1::TablesSchema schema = MakeTablesSchema(description, spec, kTwoRoadsSteps);
  schema.set_partitions(1);
  schema.set_block_bytes(kBlockBytes);
  return schema;
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

}  // namespace

DeviceTrainerOptions TwoRoadsOptions() {
  DeviceTrainerOptions options;
  TransformerShape& shape = options.shape;
  shape.layers = 2;
  shape.width = 32;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.feed_forward = 48;
  shape.vocabulary = kVocabulary;
  shape.context = kLength;
  shape.dropout = 0.1f;
  shape.attention_dropout = 0.1f;
  options.compute.type = DType::kF32;
  options.compute.sequences = kMicroBatch;
  options.compute.length = kLength;
  options.compute.workspace_bytes = size_t{4} << 20;
  options.seed = kSeed;
  options.optimizer.weight_decay = 0.1f;
  // Large, or rounding in gradients that are 0 would move weights by whole steps.
  options.optimizer.epsilon = 0.1f;
  options.buckets = {.first_bucket_bytes = 4000, .bucket_bytes = 20000};
  return options;
}

absl::StatusOr<std::vector<float>> TrainAlone(const DeviceTrainerOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(const auto trainer, DeviceTrainer::Create(options, nullptr));
  MUSTER_RETURN_IF_ERROR(trainer->WriteInitialValues(kSeed));
  for (uint64_t clock = 0; clock < kTwoRoadsSteps; ++clock) {
    MUSTER_RETURN_IF_ERROR(trainer->BeginStep(clock));
    for (int slot = 0; slot < kTwoRoadsSlots; ++slot) {
      MUSTER_RETURN_IF_ERROR(
          AddSlot(*trainer, clock, slot, /*last=*/slot + 1 == kTwoRoadsSlots).status());
    }
    MUSTER_RETURN_IF_ERROR(trainer->EndStep(kLearningRate).status());
  }
  return ReadFlat(*trainer, DeviceSpace::kWeights);
}

absl::StatusOr<std::vector<float>> TrainByAllReduce(const DeviceTrainerOptions& options,
                                                    Communicator& communicator) {
  MUSTER_ASSIGN_OR_RETURN(const auto trainer, DeviceTrainer::Create(options, &communicator));
  MUSTER_RETURN_IF_ERROR(trainer->WriteInitialValues(kSeed));
  MUSTER_RETURN_IF_ERROR(trainer->WarmUp());
  for (uint64_t clock = 0; clock < kTwoRoadsSteps; ++clock) {
    MUSTER_RETURN_IF_ERROR(trainer->BeginStep(clock));
    MUSTER_RETURN_IF_ERROR(AddSlot(*trainer, clock, communicator.rank(), /*last=*/true).status());
    MUSTER_RETURN_IF_ERROR(trainer->EndStep(kLearningRate).status());
  }
  return ReadFlat(*trainer, DeviceSpace::kWeights);
}

absl::StatusOr<std::vector<float>> TrainByServer(const DeviceTrainerOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(const auto trainer, DeviceTrainer::Create(options, nullptr));
  MUSTER_ASSIGN_OR_RETURN(const DenseLayout layout, ServerLayout(*trainer));
  MUSTER_ASSIGN_OR_RETURN(const auto server,
                          Server::Open(SchemaOf(*trainer, options.optimizer),
                                       static_cast<uint32_t>(layout.blocks().size())));
  for (uint64_t clock = 0; clock < kTwoRoadsSteps; ++clock) {
    for (int slot = 0; slot < kTwoRoadsSlots; ++slot) {
      // Under BSP every slot reads what all have made of the clocks before.
      MUSTER_ASSIGN_OR_RETURN(const std::vector<float> weights, server->Pull(slot, clock));
      MUSTER_RETURN_IF_ERROR(WriteWeights(*trainer, weights));
      MUSTER_RETURN_IF_ERROR(trainer->BeginStep(clock));
      MUSTER_ASSIGN_OR_RETURN(const int64_t labels, AddSlot(*trainer, clock, slot, /*last=*/true));
      MUSTER_ASSIGN_OR_RETURN(std::vector<float> sums, ReadFlat(*trainer, DeviceSpace::kGradients));
      MUSTER_RETURN_IF_ERROR(server->Push(slot, clock, labels, std::move(sums)));
    }
  }
  return server->Pull(0, kTwoRoadsSteps);
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

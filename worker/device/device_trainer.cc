#include "worker/device/device_trainer.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/device/device_fault.h"
#include "common/kernels/device/device_arrays.h"
#include "common/kernels/device/device_attention.h"
#include "common/kernels/device/device_norm.h"
#include "common/kernels/transformer/rotary.h"
#include "common/partition/initial_values.h"
#include "common/plan/device_memory_layout.h"

namespace muster {
namespace {

constexpr double kMiB = 1 << 20;

// Graphs take device memory, and micro-batches may come in any number of extents: those after the
// first so many are launched kernel by kernel.
constexpr size_t kMostExtentsWithGraphs = 8;

// Of a grid's z, which counts sequences.
constexpr int64_t kMostSequences = 65535;

std::string Table(const DeviceMemoryBytes& bytes) {
  const auto mib = [](size_t each) {
    return absl::StrCat(static_cast<int64_t>(std::ceil(each / kMiB)), " MiB");
  };
  return absl::StrCat("weights ", mib(bytes.weights), ", 16-bit weights ",
                      mib(bytes.rounded_weights), ", gradients ", mib(bytes.gradients),
                      ", optimizer state ", mib(bytes.optimizer_state), ", activations ",
                      mib(bytes.activations), ", logits ", mib(bytes.logits), ", scratch ",
                      mib(bytes.scratch));
}

AttentionShape HeadsOf(const TransformerShape& shape) {
  AttentionShape attention;
  attention.B = 1;
  attention.T = 1;
  attention.H = shape.heads;
  attention.KV = shape.kv_heads;
  attention.D = shape.head_dim();
  return attention;
}

absl::Status CheckOptions(const DeviceTrainerOptions& options) {
  const TransformerShape& shape = options.shape;
  const DeviceComputeOptions& compute = options.compute;
  if (compute.type != DType::kF32 && compute.type != DType::kBf16 && compute.type != DType::kF16) {
    return absl::InvalidArgumentError(
        absl::StrCat("a device computes in f32, bf16 or f16, not ", Name(compute.type)));
  }
  if (compute.sequences < 1 || compute.length < 1 || compute.length > shape.context) {
    return absl::InvalidArgumentError(absl::StrCat(
        "micro-batches of ", compute.sequences, " sequences of ", compute.length,
        " tokens: both must be at least 1, and tokens at most the context of ", shape.context));
  }
  if (compute.sequences > kMostSequences) {
    return absl::InvalidArgumentError(absl::StrCat("micro-batches of ", compute.sequences,
                                                   " sequences: a device takes at most ",
                                                   kMostSequences, "; use smaller micro-batches"));
  }
  if (shape.layers < 1 || shape.heads < 1 || shape.kv_heads < 1 || shape.width % shape.heads != 0 ||
      shape.heads % shape.kv_heads != 0 || shape.vocabulary < 1 || shape.feed_forward < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("no transformer has ", shape.layers, " layers, width ", shape.width, ", ",
                     shape.heads, " heads on ", shape.kv_heads, ", feed-forward width ",
                     shape.feed_forward, " and a vocabulary of ", shape.vocabulary));
  }
  if (!DeviceAttentionTakes(HeadsOf(shape))) {
    return absl::InvalidArgumentError(
        absl::StrCat("attention on a device takes heads of at most 256 elements; width ",
                     shape.width, " over ", shape.heads, " heads makes ", shape.head_dim()));
  }
  if (options.loss_scale.fixed != 0 && compute.type != DType::kF16) {
    return absl::InvalidArgumentError(absl::StrCat("a loss scale of ", options.loss_scale.fixed,
                                                   " in ", Name(compute.type),
                                                   ": only f16 has one"));
  }
  return absl::OkStatus();
}

// Whether a block of each kernel can have the shared memory that it takes.
absl::Status CheckSharedMemory(const DeviceTrainerOptions& options,
                               const DeviceProperties& device) {
  const TransformerShape& shape = options.shape;
  const size_t offered = device.shared_memory_per_block_optin;
  const size_t norm = DeviceNormSharedBytes(shape.width);
  if (norm > offered) {
    return absl::InvalidArgumentError(absl::StrCat("a norm of width ", shape.width, " needs ", norm,
                                                   " bytes of shared memory a block; ", device.name,
                                                   " has ", offered, "; use a narrower model"));
  }
  const AttentionShape heads = HeadsOf(shape);
  const size_t attention = DeviceAttentionSharedBytes(heads, options.compute.type);
  if (attention <= offered) return absl::OkStatus();
  const bool in_16_bits = DeviceAttentionSharedBytes(heads, DType::kBf16) <= offered;
  return absl::InvalidArgumentError(
      absl::StrCat("attention in ", Name(options.compute.type), " with heads of ", shape.head_dim(),
                   " elements needs ", attention, " bytes of shared memory a block; ", device.name,
                   " has ", offered, "; use narrower heads",
                   in_16_bits ? ", or compute.type BF16 or F16" : "", ", or another kind of GPU"));
}

}  // namespace

// In pinned memory: what the host and the device tell one another once a step.
struct DeviceTrainer::Results {
  DeviceAdamStep adam[2];
  float loss_scale = 1;
  DeviceHeadSums sums;
  GradientControl control;
};

// Of one extents.
struct DeviceTrainer::Graphs {
  // With backward as a whole, or divided into segments where buckets become complete.
  struct Captured {
    // The first time kernels are launched one by one: code is loaded then.
    bool ran = false;
    std::vector<std::unique_ptr<DeviceGraph>> segments;
  };
  Captured whole;
  Captured divided;
};

DeviceTrainer::DeviceTrainer(const DeviceTrainerOptions& options, DeviceParameters parameters,
                             Communicator* communicator)
    : options_(options), parameters_(std::move(parameters)), communicator_(communicator) {
  if (options.compute.type == DType::kF16) {
    loss_scaler_.emplace(options.loss_scale.fixed, options.loss_scale.window);
  }
}

DeviceTrainer::~DeviceTrainer() {
  reducer_ = nullptr;
  if (stream_ != nullptr) stream_->Synchronize().IgnoreError();
}

absl::StatusOr<std::unique_ptr<DeviceTrainer>> DeviceTrainer::Create(
    const DeviceTrainerOptions& options, Communicator* communicator) {
  MUSTER_RETURN_IF_ERROR(AwaitMemory(options, communicator == nullptr ? 1 : communicator->size()));
  MUSTER_ASSIGN_OR_RETURN(DeviceParameters parameters, DeviceParameters::Create(options.shape));
  std::unique_ptr<DeviceTrainer> trainer(
      new DeviceTrainer(options, std::move(parameters), communicator));
  MUSTER_RETURN_IF_ERROR(trainer->Allocate());
  return trainer;
}

absl::Status DeviceTrainer::AwaitMemory(const DeviceTrainerOptions& options, int ranks) {
  MUSTER_RETURN_IF_ERROR(CheckOptions(options));
  const absl::StatusOr<DeviceProperties> device = OpenDevice(options.device);
  if (absl::IsUnavailable(device.status())) return DeviceFaultError(device.status().message());
  MUSTER_RETURN_IF_ERROR(device.status());
  MUSTER_RETURN_IF_ERROR(CheckSharedMemory(options, *device));
  MUSTER_ASSIGN_OR_RETURN(const DeviceParameters parameters,
                          DeviceParameters::Create(options.shape));
  const DeviceMemoryBytes bytes =
      PlanDeviceMemory(options.shape, parameters, options.compute, nullptr).bytes;
  return AwaitDeviceMemory({.needed = bytes.total + kDeviceHeadroomBytes,
                            .total = device->memory_bytes,
                            .own = kCudaContextBytes + (ranks > 1 ? kNcclBytes : 0),
                            .parts = Table(bytes)},
                           FreeDeviceMemory, options.wait);
}

absl::Status DeviceTrainer::Allocate() {
  const DeviceMemoryBytes bytes =
      PlanDeviceMemory(options_.shape, parameters_, options_.compute, nullptr).bytes;
  absl::StatusOr<DeviceBuffer> memory = DeviceBuffer::Allocate(MemoryPlace::kDevice, bytes.total);
  // It was free a moment ago.
  if (absl::IsResourceExhausted(memory.status())) {
    return DeviceFaultError(memory.status().message());
  }
  MUSTER_RETURN_IF_ERROR(memory.status());
  memory_ = *std::move(memory);
  MUSTER_ASSIGN_OR_RETURN(pinned_,
                          DeviceBuffer::Allocate(MemoryPlace::kPinnedHost, sizeof(Results)));
  new (pinned_.data()) Results();
  plan_ = PlanDeviceMemory(options_.shape, parameters_, options_.compute, memory_.data());
  MUSTER_ASSIGN_OR_RETURN(stream_, DeviceStream::Create());
  stream_->Fill(memory_.data(), 0, memory_.bytes());
  MUSTER_ASSIGN_OR_RETURN(
      batches_, DeviceBatches::Create(options_.shape, options_.compute.rows(), plan_.batch));
  DeviceMatmulOptions matmul;
  matmul.workspace = plan_.scratch.workspace;
  matmul.workspace_bytes = options_.compute.workspace_bytes;
  MUSTER_ASSIGN_OR_RETURN(matmul_, MakeDeviceMatmul(matmul));
  ops_ = std::make_unique<DeviceOps>(
      DeviceOpsOptions{.scratch = plan_.scratch.ops,
                       .scratch_bytes = plan_.scratch.ops_bytes,
                       .gelu = options_.compute.fuse_gelu ? DeviceOpsOptions::Gelu::kFused
                                                          : DeviceOpsOptions::Gelu::kApart},
      *stream_, *matmul_);
  units_ =
      std::make_unique<TransformerUnits>(options_.shape, options_.compute.recompute, plan_.rotary);
  PlaceTensors();
  if (communicator_ != nullptr) {
    const std::vector<GradientBucket> buckets =
        MakeBucketPlan(parameters_.layout(), parameters_.padded(), options_.buckets);
    MUSTER_ASSIGN_OR_RETURN(
        reducer_,
        DeviceGradientReducer::Create(*communicator_, buckets,
                                      {plan_.state.gradients, plan_.state.sums}, options_.timeout));
  }
  return UploadRotaryTable();
}

absl::Status DeviceTrainer::UploadRotaryTable() {
  const TransformerShape& shape = options_.shape;
  if (plan_.rotary == nullptr) return stream_->Synchronize();
  std::vector<float> table(shape.context * shape.head_dim());
  FillRotaryTable(shape.context, shape.head_dim(), shape.rotary_base, table.data());
  stream_->CopyToDevice(plan_.rotary, table.data(), table.size() * sizeof(float));
  return stream_->Synchronize();
}

void DeviceTrainer::PlaceTensors() {
  const DeviceState& state = plan_.state;
  const size_t tensors = parameters_.tensors().specs.size();
  for (int t = 0; t < static_cast<int>(tensors); ++t) {
    const uint64_t offset = parameters_.offset(t);
    const size_t elements = parameters_.elements_of(t);
    weights_.emplace_back(state.weights + offset, elements);
    gradients_.emplace_back(state.gradients + offset, elements);
    if (state.rounded == nullptr) continue;
    rounded_.push_back(static_cast<const std::byte*>(state.rounded) +
                       offset * SizeOf(options_.compute.type));
  }
}

float* DeviceTrainer::SpaceOf(DeviceSpace space) const {
  switch (space) {
    case DeviceSpace::kWeights:
      return plan_.state.weights;
    case DeviceSpace::kGradients:
      return plan_.state.gradients;
    case DeviceSpace::kFirstMoments:
      return plan_.state.m;
    case DeviceSpace::kSecondMoments:
      return plan_.state.v;
  }
  return nullptr;
}

void DeviceTrainer::Round(uint64_t begin, uint64_t count) {
  if (plan_.state.rounded == nullptr) return;
  const DType type = options_.compute.type;
  DeviceConvert(*stream_, static_cast<int64_t>(count), DType::kF32, plan_.state.weights + begin,
                type, static_cast<std::byte*>(plan_.state.rounded) + begin * SizeOf(type));
}

absl::Status DeviceTrainer::Read(DeviceSpace space, int tensor, absl::Span<float> values) {
  stream_->CopyToHost(values.data(), SpaceOf(space) + parameters_.offset(tensor),
                      values.size() * sizeof(float));
  MUSTER_RETURN_IF_ERROR(stream_->Synchronize());
  const float scale = loss_scale_of_step_;
  if (space != DeviceSpace::kGradients || scale == 1) return absl::OkStatus();
  for (float& value : values) value /= scale;
  return absl::OkStatus();
}

absl::Status DeviceTrainer::Write(DeviceSpace space, int tensor, absl::Span<const float> values) {
  stream_->CopyToDevice(SpaceOf(space) + parameters_.offset(tensor), values.data(),
                        values.size() * sizeof(float));
  if (space == DeviceSpace::kWeights) Round(parameters_.offset(tensor), values.size());
  return stream_->Synchronize();
}

absl::Status DeviceTrainer::WriteInitialValues(uint64_t seed) {
  std::vector<float> values;
  const std::vector<TensorSpec>& specs = parameters_.tensors().specs;
  for (size_t t = 0; t < specs.size(); ++t) {
    if (!specs[t].tied_to.empty()) continue;
    values.resize(specs[t].elements());
    InitialValues(specs[t], seed, 0, absl::MakeSpan(values));
    MUSTER_RETURN_IF_ERROR(Write(DeviceSpace::kWeights, static_cast<int>(t), values));
  }
  return absl::OkStatus();
}

absl::Status DeviceTrainer::Broadcast(DType type, void* data, size_t count, int root) {
  CollectiveCall call;
  call.kind = Collective::kBroadcast;
  call.dtype = type;
  call.in = call.out = data;
  call.count = count;
  call.root = root;
  call.timeout = options_.timeout;
  call.label = "a replica's state";
  return communicator_->Run(call);
}

absl::Status DeviceTrainer::ShareState(int root) {
  if (communicator_ == nullptr) return absl::OkStatus();
  // The count travels in the place of the step's sums.
  auto* results = reinterpret_cast<Results*>(pinned_.data());
  results->sums = {static_cast<double>(steps_), 0, 0};
  stream_->CopyToDevice(plan_.state.sums, &results->sums, sizeof(DeviceHeadSums));
  MUSTER_RETURN_IF_ERROR(stream_->Synchronize());
  for (float* space : {plan_.state.weights, plan_.state.m, plan_.state.v}) {
    MUSTER_RETURN_IF_ERROR(Broadcast(DType::kF32, space, parameters_.elements(), root));
  }
  MUSTER_RETURN_IF_ERROR(
      Broadcast(DType::kF64, plan_.state.sums, sizeof(DeviceHeadSums) / sizeof(double), root));
  Round(0, parameters_.elements());
  stream_->CopyToHost(&results->sums, plan_.state.sums, sizeof(DeviceHeadSums));
  MUSTER_RETURN_IF_ERROR(stream_->Synchronize());
  steps_ = static_cast<uint64_t>(results->sums.loss);
  if (loss_scaler_.has_value()) {
    loss_scaler_.emplace(options_.loss_scale.fixed, options_.loss_scale.window);
  }
  return absl::OkStatus();
}

std::vector<int> DeviceTrainer::SegmentEnds(bool divided) const {
  std::vector<int> units;
  if (divided && reducer_ != nullptr) units = reducer_->ReadyUnits();
  if (units.empty() || units.back() != 0) units.push_back(0);
  return units;
}

TransformerPass DeviceTrainer::PassOf(const TokenRows& rows, Pass pass) const {
  const DeviceState& state = plan_.state;
  const DeviceBatchArrays& batch = plan_.batch;
  return {.context = {.ops = *ops_,
                      .type = options_.compute.type,
                      .rows = rows,
                      .pass = pass,
                      .seed = options_.seed,
                      .clock = batch.clock,
                      .loss_scale = state.loss_scale,
                      // BeginStep has zeroed them.
                      .gradients = Accumulation::kAdd},
          .parameters = {weights_, rounded_},
          .tokens = {.tokens = batch.tokens, .order = batch.token_order},
          .loss = {.labels = batch.labels,
                   .sums = pass == Pass::kTraining ? state.sums : state.evaluation_sums},
          .arrays = plan_.arrays};
}

void DeviceTrainer::QueueSegment(const TokenRows& rows, int first, int last) {
  const TransformerPass pass = PassOf(rows, Pass::kTraining);
  const int last_unit = options_.shape.units() - 1;
  if (first == last_unit) {
    ResidualStream stream;
    for (int unit = 0; unit < last_unit; ++unit) stream = units_->Forward(pass, unit, stream);
    units_->RunLastUnit(pass, stream, gradients_);
    --first;
  }
  for (int unit = first; unit >= last; --unit) units_->Backward(pass, unit, gradients_);
}

absl::Status DeviceTrainer::RunMicroBatch(const TokenRows& rows, bool divided, bool reduce) {
  const Extents extents = {rows.sequences, rows.length};
  Graphs none;
  auto found = graphs_.find(extents);
  if (found == graphs_.end() && graphs_.size() < kMostExtentsWithGraphs) {
    found = graphs_.emplace(extents, std::make_unique<Graphs>()).first;
  }
  Graphs& of_extents = found == graphs_.end() ? none : *found->second;
  Graphs::Captured& graphs = divided ? of_extents.divided : of_extents.whole;
  const std::vector<int> ends = SegmentEnds(divided);
  const bool fused = ops_->fuses_gelu();
  int first = options_.shape.units() - 1;
  for (size_t i = 0; i < ends.size(); ++i) {
    const int last = ends[i];
    if (!graphs.ran) {
      QueueSegment(rows, first, last);
    } else {
      if (graphs.segments.size() == i) {
        MUSTER_ASSIGN_OR_RETURN(auto graph,
                                DeviceGraph::Capture(*stream_, [this, rows, first, last] {
                                  QueueSegment(rows, first, last);
                                  return absl::OkStatus();
                                }));
        graphs.segments.push_back(std::move(graph));
      }
      graphs.segments[i]->Launch(*stream_);
    }
    // Nothing of a pass that failed leaves.
    MUSTER_RETURN_IF_ERROR(stream_->status());
    if (reduce) reducer_->UnitReady(*stream_, last);
    first = last - 1;
  }
  // Where a fused product proved impossible, what takes its place has not run yet.
  graphs.ran = graphs.ran || ops_->fuses_gelu() == fused;
  return absl::OkStatus();
}

size_t DeviceTrainer::extents_with_graphs() const {
  return std::count_if(graphs_.begin(), graphs_.end(), [](const auto& entry) {
    const Graphs& graphs = *entry.second;
    return !graphs.whole.segments.empty() || !graphs.divided.segments.empty();
  });
}

absl::Status DeviceTrainer::WarmUp() {
  // Graphs of steps before keep the algorithms of then, and would capture what is measured.
  MUSTER_RETURN_IF_ERROR(stream_->Synchronize());
  graphs_.clear();
  const TokenRows rows = options_.compute.rows();
  Batch batch;
  batch.examples = rows.sequences;
  batch.tokens.assign(rows.count(), 0);
  batch.labels.assign(rows.count(), 0);
  const auto run = [&](bool divided) -> absl::Status {
    MUSTER_RETURN_IF_ERROR(BeginStep(0));
    MUSTER_RETURN_IF_ERROR(batches_->Copy(*stream_, batch, {}));
    return RunMicroBatch(rows, divided, /*reduce=*/false);
  };
  for (const bool divided : {false, true}) {
    if (divided && reducer_ == nullptr) continue;
    bool fused = false;
    do {
      // Where a fused product proves impossible, what takes its place is measured, too.
      fused = ops_->fuses_gelu();
      matmul_->StartMeasuring();
      const absl::Status status = run(divided);
      matmul_->StopMeasuring();
      MUSTER_RETURN_IF_ERROR(status);
    } while (ops_->fuses_gelu() != fused);
    MUSTER_RETURN_IF_ERROR(run(divided));
  }
  return stream_->Synchronize();
}

absl::Status DeviceTrainer::BeginStep(uint64_t clock) {
  clock_ = clock;
  auto* results = reinterpret_cast<Results*>(pinned_.data());
  results->loss_scale = loss_scale_of_step_ = loss_scale();
  stream_->CopyToDevice(plan_.state.loss_scale, &results->loss_scale, sizeof(float));
  stream_->Fill(plan_.state.gradients, 0, parameters_.elements() * sizeof(float));
  stream_->Fill(plan_.state.sums, 0, sizeof(DeviceHeadSums));
  return stream_->status();
}

absl::Status DeviceTrainer::AddMicroBatch(const Batch& batch, uint64_t first_example,
                                          SeriesPosition position) {
  MUSTER_ASSIGN_OR_RETURN(const TokenRows rows, batches_->Check(batch));
  const bool last = position == SeriesPosition::kLast && reducer_ != nullptr;
  if (rows.sequences == 0) {
    if (last) reducer_->UnitReady(*stream_, 0);
    return absl::OkStatus();
  }
  MUSTER_RETURN_IF_ERROR(batches_->Copy(*stream_, batch, {clock_, first_example}));
  return RunMicroBatch(rows, /*divided=*/last, /*reduce=*/last);
}

void DeviceTrainer::QueueDecision() {
  const DeviceState& state = plan_.state;
  auto* results = reinterpret_cast<Results*>(pinned_.data());
  DeviceSumOfSquares(*stream_, static_cast<int64_t>(parameters_.elements()), state.gradients,
                     Accumulation::kWrite, state.squares, state.squares_scratch);
  DeviceDecideStep(*stream_, options_.clip, state.squares, state.sums, state.loss_scale,
                   state.control);
  stream_->CopyToHost(&results->sums, state.sums, sizeof(DeviceHeadSums));
  stream_->CopyToHost(&results->control, state.control, sizeof(GradientControl));
}

void DeviceTrainer::QueueOptimizer() {
  const DeviceState& state = plan_.state;
  auto* results = reinterpret_cast<Results*>(pinned_.data());
  stream_->CopyToDevice(state.adam, results->adam, sizeof(results->adam));
  const DType type = options_.compute.type;
  for (const DeviceParameters::GroupStretch& stretch : parameters_.group_stretches()) {
    DeviceAdamArrays arrays;
    arrays.gradient = state.gradients + stretch.begin;
    arrays.weights = state.weights + stretch.begin;
    arrays.m = state.m + stretch.begin;
    arrays.v = state.v + stretch.begin;
    if (state.rounded != nullptr) {
      arrays.rounded_type = type;
      arrays.rounded = static_cast<std::byte*>(state.rounded) + stretch.begin * SizeOf(type);
    }
    DeviceAdam(*stream_, static_cast<int64_t>(stretch.end - stretch.begin),
               state.adam + (stretch.weight_decay ? 0 : 1), state.control, arrays);
  }
}

absl::Status DeviceTrainer::RunUpdate() {
  const auto queue = [this] {
    QueueDecision();
    QueueOptimizer();
    return absl::OkStatus();
  };
  if (!update_ran_) {
    update_ran_ = true;
    return queue();
  }
  if (update_ == nullptr) {
    MUSTER_ASSIGN_OR_RETURN(update_, DeviceGraph::Capture(*stream_, queue));
  }
  update_->Launch(*stream_);
  return absl::OkStatus();
}

absl::StatusOr<DeviceStepResult> DeviceTrainer::TakeResult() {
  MUSTER_RETURN_IF_ERROR(stream_->Synchronize());
  const auto* results = reinterpret_cast<const Results*>(pinned_.data());
  DeviceStepResult result;
  result.loss_sum = results->sums.loss;
  result.tokens = static_cast<int64_t>(results->sums.tokens);
  result.correct = static_cast<int64_t>(results->sums.correct);
  result.gradient_norm = results->control.norm;
  result.skipped = results->control.skip != 0;
  if (result.tokens == 0) return result;
  if (!result.skipped) {
    if (loss_scaler_.has_value()) loss_scaler_->Succeeded();
    return result;
  }
  if (!loss_scaler_.has_value() || !loss_scaler_->Overflowed()) {
    return absl::OutOfRangeError(absl::StrCat(
        "diverged at step ", clock_ + 1, ": the gradient's norm is ", result.gradient_norm,
        ", the loss ", result.loss_sum / result.tokens, "; lower the learning rate"));
  }
  return result;
}

absl::StatusOr<DeviceStepResult> DeviceTrainer::EndStep(float learning_rate) {
  if (reducer_ != nullptr) MUSTER_RETURN_IF_ERROR(reducer_->Finish(*stream_));
  // Of the step before nothing reads them any more.
  auto* results = reinterpret_cast<Results*>(pinned_.data());
  AdamOptions vectors = options_.optimizer;
  vectors.weight_decay = 0;
  results->adam[0] = AdamStepOf(options_.optimizer, learning_rate, steps_ + 1);
  results->adam[1] = AdamStepOf(vectors, learning_rate, steps_ + 1);
  MUSTER_RETURN_IF_ERROR(RunUpdate());
  MUSTER_ASSIGN_OR_RETURN(const DeviceStepResult result, TakeResult());
  if (!result.skipped) ++steps_;
  return result;
}

absl::StatusOr<DeviceStepResult> DeviceTrainer::TakeGradients() {
  QueueDecision();
  return TakeResult();
}

absl::StatusOr<DeviceStepResult> DeviceTrainer::Evaluate(const Batch& batch) {
  MUSTER_ASSIGN_OR_RETURN(const TokenRows rows, batches_->Check(batch));
  DeviceStepResult result;
  if (rows.sequences == 0) return result;
  DeviceHeadSums* sums = plan_.state.evaluation_sums;
  auto* results = reinterpret_cast<Results*>(pinned_.data());
  stream_->Fill(sums, 0, sizeof(DeviceHeadSums));
  MUSTER_RETURN_IF_ERROR(batches_->Copy(*stream_, batch, {}));
  const TransformerPass pass = PassOf(rows, Pass::kEvaluation);
  ResidualStream stream;
  for (int unit = 0; unit < options_.shape.units(); ++unit) {
    stream = units_->Forward(pass, unit, stream);
  }
  stream_->CopyToHost(&results->sums, sums, sizeof(DeviceHeadSums));
  MUSTER_RETURN_IF_ERROR(stream_->Synchronize());
  result.loss_sum = results->sums.loss;
  result.tokens = static_cast<int64_t>(results->sums.tokens);
  result.correct = static_cast<int64_t>(results->sums.correct);
  return result;
}

}  // namespace muster

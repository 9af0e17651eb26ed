#include "worker/device/weights/device_shard.h"

#include <numeric>
#include <utility>

#include "absl/types/optional.h"
#include "common/base/status_macros.h"
#include "common/mesh/job_mesh.h"
#include "common/optim/optimizer_options.h"
#include "common/optim/schedule.h"
#include "common/partition/bucket_plan.h"
#include "common/partition/dense_layout.h"
#include "common/plan/device/device_shard_plan.h"
#include "proto/cluster_service.pb.h"
#include "proto/schema.pb.h"
#include "worker/device/memory/await_device.h"
#include "worker/device/memory/device_memory_plan.h"

namespace muster {
namespace {

// Returns the number of NCCL's communicators that tensor ranks have in the group: one of all, and
// one of those that have a key-value head in common, if some but not all have.
int TensorCommunicators(const DeviceOptions& options) {
  const int ranks = options.compute.mesh.size(Axis::kTensor);
  if (ranks == 1) return 0;
  return options.shape.kv_heads > 1 && options.shape.kv_heads < ranks ? 2 : 1;
}

// Adds elements of one optimizer group to what steps move, and their sums to those whose squares
// count, if they do. What continues the last ones becomes part of them.
void Add(DeviceUpdateArrays::Stretch more, bool in_norm, DeviceUpdateArrays& arrays) {
  const float* const sums = more.arrays.gradient;
  if (in_norm && !arrays.sums.empty() && arrays.sums.back().end() == sums) {
    absl::Span<const float>& last = arrays.sums.back();
    last = {last.data(), last.size() + more.elements};
  } else if (in_norm) {
    arrays.sums.emplace_back(sums, more.elements);
  }
  if (!arrays.stretches.empty()) {
    DeviceUpdateArrays::Stretch& last = arrays.stretches.back();
    if (last.weight_decay == more.weight_decay && last.sign_rate == more.sign_rate &&
        last.arrays.gradient + last.elements == sums &&
        last.arrays.weights + last.elements == more.arrays.weights &&
        last.arrays.m + last.elements == more.arrays.m) {
      last.elements += more.elements;
      return;
    }
  }
  arrays.stretches.push_back(std::move(more));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceShard>> DeviceShard::Create(const v1::TaskOrder& order,
                                                                 const v1::TablesSchema& schema,
                                                                 const DeviceOptions& options,
                                                                 MakeDeviceCommunicator make,
                                                                 KeptShard& kept) {
  MUSTER_RETURN_IF_ERROR(ReadAdamOptions(schema.optimizer()).status());
  DeviceOptions own = options;
  own.shares = kept.state().tables().tensors;
  MUSTER_ASSIGN_OR_RETURN(DeviceParameters places, DeviceParameters::Create(own.shape, own.shares));
  std::unique_ptr<DeviceShard> shard(
      new DeviceShard(order.spec(), schema, own, std::move(places), std::move(make), kept));
  MUSTER_RETURN_IF_ERROR(shard->PlanShard());
  return shard;
}

DeviceShard::DeviceShard(const v1::JobSpec& spec, const v1::TablesSchema& schema,
                         const DeviceOptions& options, DeviceParameters places,
                         MakeDeviceCommunicator make, KeptShard& kept)
    : spec_(std::make_unique<const v1::JobSpec>(spec)),
      schema_(std::make_unique<const v1::TablesSchema>(schema)),
      options_(options),
      places_(std::move(places)),
      make_(std::move(make)),
      kept_(kept) {}

absl::Status DeviceShard::PlanShard() {
  if (ZeroStage(*spec_) == 0) return absl::OkStatus();
  const uint32_t shards = static_cast<uint32_t>(kept_.state().shard().size(kShardAxes));
  MUSTER_ASSIGN_OR_RETURN(options_.compute.shard,
                          PlanDeviceShard(*spec_, shards, options_.shares, options_.compute.type));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<GradientBucket>> DeviceShard::PlanBuckets(
    const DenseLayout& layout, absl::Span<const TensorSpec> tensors) const {
  MUSTER_ASSIGN_OR_RETURN(const DeviceParameters places,
                          DeviceParameters::Create(options_.shape, tensors));
  return MakeBucketPlan(places.layout(), places.padded(), options_.buckets);
}

absl::Status DeviceShard::MoveGroups(RankGroups& groups) {
  const Communicator& group = groups.Group(divides() ? kShardAxes : kGradientAxes);
  int communicators = TensorCommunicators(options_);
  if (group.size() > 1) ++communicators;
  std::vector<Axes> others = {kContext, Axis::kPipeline, kExpertAxes};
  if (divides()) others.push_back(kCopyAxes);
  if (groups.Others(kExpertAxes) != nullptr) {
    others.push_back(kExpertCopyAxes);
    if (divides()) others.push_back(kExpertShardAxes);
  }
  if (ChoicesCountedOf(*spec_) == ChoicesCounted::kTogether) others.push_back(kDataAxes);
  for (const Axes axes : others) communicators += groups.Others(axes) != nullptr ? 1 : 0;
  if (groups.tied_group() != nullptr) ++communicators;
  // Communicators take device memory, too, and cannot wait for it.
  MUSTER_RETURN_IF_ERROR(AwaitDevice(options_, communicators));
  MUSTER_RETURN_IF_ERROR(groups.MoveToDevices(
      divides() ? RankGroups::Moved::kSlices : RankGroups::Moved::kWhole, make_));
  return communicators == 0 ? absl::OkStatus() : AwaitDevice(options_, communicators);
}

absl::Status DeviceShard::Enter(RankGroups& groups) {
  MUSTER_RETURN_IF_ERROR(PlanShard());
  MUSTER_RETURN_IF_ERROR(MoveGroups(groups));
  const DeviceExtents extents = DeviceExtentsOf(options_.shape, places_, options_.compute);
  MUSTER_ASSIGN_OR_RETURN(passes_, DevicePasses::Create(options_.shape, options_.compute, extents));
  MUSTER_ASSIGN_OR_RETURN(
      ops_, DeviceSliceOps::Create([this]() -> DeviceStream& { return passes_->stream(); }));
  MUSTER_ASSIGN_OR_RETURN(
      spaces_, DeviceSpaces::Create(places_, options_.compute, extents, passes_->stream()));
  return absl::OkStatus();
}

void DeviceShard::Stop() {
  if (passes_ != nullptr) passes_->Stop();
}

void DeviceShard::Leave() {
  update_ = nullptr;
  ops_ = nullptr;
  passes_ = nullptr;
  spaces_ = nullptr;
}

absl::Status DeviceShard::MakeCall(Communicator& group, const CollectiveCall& call) {
  passes_->MakeCalls(group, {call});
  return absl::OkStatus();
}

std::vector<std::shared_ptr<Work>> DeviceShard::StartCalls(Communicator& group,
                                                           absl::Span<const CollectiveCall> calls) {
  passes_->MakeCalls(group, calls);
  return {};
}

void DeviceShard::Exchange(std::function<void()> exchange) {
  passes_->Exchange(std::move(exchange));
}

absl::Status DeviceShard::Read(const void* from, size_t bytes, void* to) {
  return passes_->Read(from, bytes, to);
}

ShardPlace::Replica DeviceShard::replica() {
  return {.space = {memory().gradients, places_.elements()},
          .gradients = spaces_->gradients(),
          .parameters = spaces_->parameters()};
}

absl::Span<float> DeviceShard::sums() {
  return {memory().gradients, static_cast<size_t>(options_.compute.shard->sums)};
}

void DeviceShard::PlaceWeights(absl::Span<float* const> places) {
  weights_.clear();
  float* own = memory().weights;
  const absl::Span<const ShardLayout::Part> parts = kept_.state().shard_layout().parts();
  for (size_t part = 0; part < places.size(); ++part) {
    const size_t elements = parts[part].slice;
    // Gathered f32 weights are stepped where they are, if they stay there.
    float* const place =
        places[part] != nullptr ? places[part] : std::exchange(own, own + elements);
    weights_.emplace_back(place, elements);
  }
  readable_weights_.assign(weights_.begin(), weights_.end());
}

std::unique_ptr<LowPrecisionCopies> DeviceShard::MakeCopies(absl::Span<const TensorSpec> tensors,
                                                            const ModelParameters& held) {
  if (!divides()) return nullptr;
  return std::make_unique<LowPrecisionCopies>(
      TensorsReadOnDevices(tensors, options_.compute.type), held,
      LowPrecisionCopiesPlace{.memory = memory().rounded, .ops = [this]() -> Ops& {
                                passes_->stream();
                                return passes_->ops();
                              }});
}

DeviceUpdateArrays::Stretch DeviceShard::StretchAt(uint64_t begin, uint64_t elements) const {
  const DeviceState& state = memory();
  DeviceUpdateArrays::Stretch stretch;
  stretch.elements = static_cast<int64_t>(elements);
  stretch.arrays.gradient = state.gradients + begin;
  stretch.arrays.weights = state.weights + begin;
  stretch.arrays.m = state.m + begin;
  stretch.arrays.v = state.v + begin;
  if (divides() || state.rounded == nullptr) return stretch;
  const DType type = options_.compute.type;
  stretch.arrays.rounded_type = type;
  stretch.arrays.rounded = static_cast<std::byte*>(state.rounded) + begin * SizeOf(type);
  return stretch;
}

DeviceUpdateArrays::Stretch DeviceShard::StretchOf(const ShardLayout::OwnedBlock& owned) const {
  DeviceUpdateArrays::Stretch stretch = StretchAt(owned.slice_begin, owned.block.elements());
  const uint32_t part = owned.block.part;
  const uint64_t begin = kept_.state().shard_layout().parts()[part].slice_begin;
  stretch.arrays.weights = weights_[part].data() + (owned.slice_begin - begin);
  return stretch;
}

void DeviceShard::ForEachSpan(
    ShardState& state, absl::FunctionRef<void(absl::Span<float> host, float* device)> copy) const {
  const ShardState::State values = state.state();
  for (const ShardLayout::OwnedBlock& owned : state.owned_blocks()) {
    // A block's state is all of m, then all of v.
    const uint64_t elements = owned.block.elements();
    const absl::Span<float> weights = values.weights.subspan(owned.slice_begin, elements);
    const absl::Span<float> m = values.optimizer_state.subspan(2 * owned.slice_begin, elements);
    const absl::Span<float> v =
        values.optimizer_state.subspan(2 * owned.slice_begin + elements, elements);
    const auto copy_at = [&](uint64_t at, const DeviceUpdateArrays::Stretch& to) {
      copy(weights.subspan(at, to.elements), to.arrays.weights);
      copy(m.subspan(at, to.elements), to.arrays.m);
      copy(v.subspan(at, to.elements), to.arrays.v);
    };
    if (divides()) {
      copy_at(0, StretchOf(owned));
      continue;
    }
    uint64_t at = 0;
    for (const DenseLayout::Piece& piece : owned.block.pieces) {
      const uint64_t count = piece.end - piece.begin;
      copy_at(at, StretchAt(places_.offset(piece.tensor) + piece.begin, count));
      at += count;
    }
  }
}

DeviceUpdateArrays DeviceShard::ArraysOf(absl::Span<const absl::Span<float>> sums) const {
  DeviceUpdateArrays arrays;
  arrays.state = memory();
  // Adds elements of one block; each counts once in norms.
  const auto add = [&arrays](const DenseLayout::Block& block, DeviceUpdateArrays::Stretch stretch) {
    stretch.weight_decay = block.weight_decay;
    stretch.sign_rate = block.sign_rate;
    Add(std::move(stretch), block.in_norm(), arrays);
  };
  if (!divides()) {
    // Expert ranks have all else in common.
    const MeshPosition& shard = kept_.state().shard();
    const bool repeats = Holders(shard.mesh).Repeats(shard.at(kHolderAxes));
    for (DenseLayout::Block block : places_.layout().blocks()) {
      block.repeated |= repeats && !places_.layout().parts()[block.part].experts;
      add(block, StretchAt(block.begin, block.elements()));
    }
    return arrays;
  }
  const ShardState& state = kept_.state();
  for (const ShardLayout::OwnedBlock& owned : state.owned_blocks()) {
    const uint32_t part = owned.block.part;
    DeviceUpdateArrays::Stretch stretch = StretchOf(owned);
    stretch.arrays.gradient =
        sums[part].data() + (owned.slice_begin - state.shard_layout().parts()[part].slice_begin);
    add(owned.block, std::move(stretch));
  }
  return arrays;
}

absl::Status DeviceShard::Fill(absl::Span<const absl::Span<float>> sums) {
  MUSTER_ASSIGN_OR_RETURN(update_, DeviceUpdate::Create(options_, *passes_, ArraysOf(sums)));
  DeviceStream& stream = passes_->stream();
  ForEachSpan(kept_.state(), [&stream](absl::Span<float> host, float* device) {
    stream.CopyToDevice(device, host.data(), host.size() * sizeof(float));
  });
  if (!divides()) spaces_->RoundWeights(stream);
  MUSTER_RETURN_IF_ERROR(stream.Synchronize());
  HandOver();
  return absl::OkStatus();
}

absl::Status DeviceShard::TakeBack() {
  if (!kept_.handed_over()) return absl::OkStatus();
  return kept_.TakeBack([this](ShardState& state) {
    DeviceStream& stream = passes_->stream();
    ForEachSpan(state, [&stream](absl::Span<float> host, float* device) {
      stream.CopyToHost(host.data(), device, host.size() * sizeof(float));
    });
    return stream.Synchronize();
  });
}

absl::Status DeviceShard::EndPasses() {
  MUSTER_RETURN_IF_ERROR(passes_->AwaitCalls());
  return passes_->stream().status();
}

StepAgreement::Extent DeviceShard::extent() const {
  const bool alike = !divides() && options_.compute.mesh.world_size() == 1;
  return alike ? StepAgreement::Extent::kExamples : StepAgreement::Extent::kAll;
}

absl::StatusOr<absl::Span<const double>> DeviceShard::Measure(const GradientSums& sums,
                                                              size_t cells) {
  MUSTER_RETURN_IF_ERROR(ops_->LeadComputation());
  if (extent() == StepAgreement::Extent::kExamples) return absl::Span<const double>();
  MUSTER_ASSIGN_OR_RETURN(squares_, update_->SumOfSquares());
  return absl::MakeConstSpan(&squares_, cells);
}

absl::Status DeviceShard::Decide(const GradientSums& sums, StepOutcome& outcome) {
  DeviceUpdateStep step;
  step.examples = sums.examples;
  step.loss_scale = kept_.loss_scaling().scale();
  step.learning_rate = LearningRate(schema_->schedule(), schema_->optimizer().learning_rate(),
                                    outcome.clock, schema_->total_steps(), outcome.rate_factor);
  // Bias correction counts clocks, as on processors.
  step.step = outcome.clock + 1;
  if (extent() == StepAgreement::Extent::kAll) {
    step.squares = std::accumulate(sums.cells.begin(), sums.cells.end(), 0.0);
  }
  MUSTER_ASSIGN_OR_RETURN(const GradientControl control, update_->Run(step));
  if (control.skip == 0) {
    outcome.norm = control.norm;
  } else if (sums.examples > 0) {
    outcome.overflowed = StepOutcome::kSomeTensor;
  }
  return absl::OkStatus();
}

void DeviceShard::Apply(const GradientSums& sums, const StepOutcome& outcome) {
  if (outcome.moves()) kept_.state().CountStep();
  kept_.state().set_clock(outcome.clock + 1);
}

absl::StatusOr<DeviceStrategy> MakeDeviceStrategy(const v1::TaskOrder& order,
                                                  const v1::TablesSchema& schema,
                                                  const DeviceOptions& options,
                                                  const MakeDeviceCommunicator& make,
                                                  ShardedDependencies dependencies) {
  DeviceStrategy made;
  dependencies.make_place = [&](KeptShard& kept) -> absl::StatusOr<std::unique_ptr<ShardPlace>> {
    MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<DeviceShard> shard,
                            DeviceShard::Create(order, schema, options, make, kept));
    made.shard = shard.get();
    return shard;
  };
  MUSTER_ASSIGN_OR_RETURN(
      made.strategy,
      ShardedStrategy::Create(order, schema, {.timeout = options.timeout, .servers = {}},
                              std::move(dependencies)));
  return made;
}

}  // namespace muster

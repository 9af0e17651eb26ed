#include "common/plan/calls/job_calls.h"

#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"
#include "common/job/job_road.h"
#include "common/mesh/job_mesh.h"
#include "common/partition/model_units.h"
#include "common/partition/pulled_types.h"
#include "common/partition/schema.h"
#include "common/partition/unit_gathers.h"
#include "common/partition/unit_pulls.h"
#include "common/partition/wire_dtype.h"
#include "common/plan/device/device_memory_layout.h"
#include "common/plan/passes/transformer_memory_plan.h"
#include "common/plan/ranks/rank_size.h"
#include "common/plan/size/model_size.h"
#include "common/step/stage_spec.h"

namespace muster {
JobCalls::JobCalls(const v1::TablesSchema& schema, const v1::JobSpec& spec, CallRoad road)
    : schema_(schema),
      spec_(spec),
      road_(road),
      mesh_(MeshOf(spec)),
      division_(DivisionOf(schema, mesh_)),
      tensors_(TablesFromSchema(schema).tensors) {
  schema_.set_tensor_ranks(mesh_.size(Axis::kTensor));
  schema_.set_expert_ranks(mesh_.size(kExpertAxes));
  // The embedding, the blocks and the head.
  units_ = spec.model().has_transformer()
               ? static_cast<int>(SizeOfTransformer(spec.model().transformer(), {}).layers) + 2
               : std::max(1, UnitCount(tensors_));
}

absl::StatusOr<JobCalls> JobCalls::Create(const v1::TablesSchema& schema, const v1::JobSpec& spec,
                                          CallRoad road) {
  JobCalls job(schema, spec, road);
  // Ranks are laid out in blocks of another size.
  MUSTER_RETURN_IF_ERROR(LayoutOfTensors(job.schema_, {}).status());
  if (job.served()) {
    MUSTER_ASSIGN_OR_RETURN(job.served_, ServedFromSchema(job.schema_));
  }
  if (job.division_.stages() == 1 || spec.model().has_transformer()) return job;
  for (const int rank : job.division_.mesh.Group(0, Axis::kPipeline)) {
    MUSTER_ASSIGN_OR_RETURN(job.boundary_tensors_.emplace_back(),
                            LocalTensors(job.tensors_, job.division_, rank));
  }
  return job;
}

bool JobCalls::holds_rows() const { return has_rows() && !served() && !IsHybrid(spec_); }

ModelStage JobCalls::Stage(int stage) const { return StageOfJob(spec_, schema_, units_, stage); }

absl::StatusOr<std::vector<TensorSpec>> JobCalls::TensorsOf(int rank) const {
  if (!served()) {
    return LocalTensors(tensors_, division_, division_.mesh.Move(0, kModelAxes, rank));
  }
  const size_t n = served_->tensors.size() / served_->ranks();
  const auto first = served_->tensors.begin() + static_cast<ptrdiff_t>(PartOf(rank) * n);
  return std::vector<TensorSpec>(first, first + static_cast<ptrdiff_t>(n));
}

absl::StatusOr<DenseLayout> JobCalls::LayoutOf(int rank,
                                               absl::Span<const TensorSpec> tensors) const {
  if (served()) return LayoutOfRank(*served_, PartOf(rank));
  return LayoutOfLargeBlocks(tensors);
}

bool JobCalls::divides_matrices() const {
  return !served() && mesh_.size(kMatrixAxes) > 1 &&
         std::any_of(tensors_.begin(), tensors_.end(),
                     [](const TensorSpec& tensor) { return !tensor.matrix_rows.empty(); });
}

absl::StatusOr<MatrixDivision> JobCalls::MatricesOf(int rank) const {
  return DivideMatrices(schema_, {mesh_, mesh_.Move(0, kModelAxes, rank)});
}

uint64_t JobCalls::MessageBytes(int unit, uint64_t examples, int position) const {
  absl::Span<const TensorSpec> tensors;
  if (!boundary_tensors_.empty()) tensors = boundary_tensors_[division_.StageOf(unit)];
  return BoundaryBytes(spec_, tensors, unit, examples, position);
}

absl::StatusOr<std::unique_ptr<RankCalls>> RankCalls::Create(const JobCalls& job, int rank) {
  MUSTER_ASSIGN_OR_RETURN(std::vector<TensorSpec> tensors, job.TensorsOf(rank));
  MUSTER_ASSIGN_OR_RETURN(DenseLayout layout, job.LayoutOf(rank, tensors));
  std::unique_ptr<RankCalls> calls(new RankCalls(job, rank, std::move(tensors), std::move(layout)));
  MUSTER_RETURN_IF_ERROR(job.served() ? calls->TakeServedBlocks() : calls->PlanBuckets());
  if (job.divides_matrices()) MUSTER_RETURN_IF_ERROR(calls->TakeMatrices());
  calls->TakeLayers();
  return calls;
}

RankCalls::RankCalls(const JobCalls& job, int rank, std::vector<TensorSpec> tensors,
                     DenseLayout layout)
    : job_(job),
      rank_(rank),
      stage_(job.Stage(job.kinds().Position(rank, Axis::kPipeline))),
      tensors_(std::move(tensors)),
      layout_(std::move(layout)),
      units_(UnitCount(tensors_)),
      tied_units_(TiedUnits(tensors_)),
      complete_(CompleteUnits(tensors_)),
      shared_(SharedSums(tensors_, DividesTokens(job.spec()))),
      holding_(HoldingOfStage(job.served() ? 0 : ZeroStage(job.spec()))),
      shards_(layout_, job.served() ? Holders() : Holders(job.mesh())),
      trained_slice_elements_(
          job.served() ? 0 : ShardLayout(layout_.Trained(), shards_.holders()).slice_elements()) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].stages == 1 || tensors_[i].elements() == 0 || tensors_[i].frozen) continue;
    tied_.push_back(static_cast<int>(i));
  }
}

absl::Status RankCalls::PlanBuckets() {
  const v1::UpdateSpec& update = job_.spec().update();
  if (update.wire() == v1::UpdateSpec::BF16) wire_ = DType::kBf16;
  if (holding_.weights.has_value()) {
    places_.emplace(shards_, tensors_, *holding_.weights, UnitPlaces::Content::kWeights,
                    KeptGatheredBytes(job_.spec()));
    return absl::OkStatus();
  }
  const BucketPlanOptions options = BucketPlanOptionsOf(update);
  if (!job_.on_device()) {
    buckets_ = MakeBucketPlan(layout_.Trained(), tensors_, options);
    return absl::OkStatus();
  }
  const std::vector<TensorSpec> padded = PaddedTensors(tensors_);
  MUSTER_ASSIGN_OR_RETURN(const DenseLayout layout, job_.LayoutOf(rank_, padded));
  buckets_ = MakeBucketPlan(layout, padded, options);
  return absl::OkStatus();
}

absl::Status RankCalls::TakeServedBlocks() {
  MUSTER_ASSIGN_OR_RETURN(wire_, WireDType(job_.spec().update().wire()));
  const std::vector<DType> types = PulledTypes(tensors_);
  pulled_.assign(units_, std::vector<uint64_t>(layout_.partitions()));
  pulled_bytes_.resize(units_);
  pushed_elements_.resize(units_);
  for (const DenseLayout::Block& block : layout_.blocks()) {
    // Frozen parameters that stay are there when a step begins.
    if (block.frozen && !HoldsUnitsInFlight(job_.spec())) continue;
    const bool as_wire = job_.on_device() || wire_ != DType::kF32;
    const uint64_t bytes =
        block.elements() * SizeOf(as_wire ? wire_ : types[block.pieces[0].tensor]);
    pulled_[block.unit][block.partition] += bytes;
    pulled_bytes_[block.unit] += bytes;
    // Elements that are pushed as f32 count as more of the wire's type.
    const DType pushed = block.sign_rate > 0 ? DType::kF32 : wire_;
    if (block.repeated || block.frozen) continue;
    pushed_elements_[block.unit] += block.elements() * SizeOf(pushed) / SizeOf(wire_);
  }
  if (HoldsUnitsInFlight(job_.spec())) {
    places_.emplace(shards_, tensors_, UnitPlaces::Holding::kInFlight, RoomFor(layout_, types));
  }
  return absl::OkStatus();
}

absl::Status RankCalls::TakeMatrices() {
  MUSTER_ASSIGN_OR_RETURN(matrices_, job_.MatricesOf(rank_));
  return absl::OkStatus();
}

void RankCalls::TakeLayers() {
  if (job_.spec().model().has_transformer() || job_.mesh().size(Axis::kTensor) == 1) return;
  layers_.resize(std::max(units_, stage_.units()));
  for (const TensorSpec& tensor : tensors_) {
    const std::vector<int64_t>& shape = GlobalShape(tensor);
    if (tensor.placement.kind != Placement::Kind::kShard || shape.size() != 2) continue;
    layers_[tensor.unit].push_back({.by_inputs = tensor.placement.dimension == 1,
                                    .inputs = static_cast<uint64_t>(shape[1]),
                                    .outputs = static_cast<uint64_t>(shape[0])});
  }
}

}  // namespace muster

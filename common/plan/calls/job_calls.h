#ifndef MUSTER_COMMON_PLAN_CALLS_JOB_CALLS_H_
#define MUSTER_COMMON_PLAN_CALLS_JOB_CALLS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/partition/bucket_plan.h"
#include "common/partition/dense_layout.h"
#include "common/partition/local_tensors.h"
#include "common/partition/matrix_rounds.h"
#include "common/partition/served_layout.h"
#include "common/partition/shard_layout.h"
#include "common/partition/shared_sums.h"
#include "common/partition/stage_holding.h"
#include "common/partition/tensor_spec.h"
#include "common/partition/unit_places.h"
#include "common/partition/unit_pulls.h"
#include "common/plan/calls/layer_calls.h"
#include "common/plan/calls/step_calls.h"
#include "common/step/stage_shape.h"
#include "common/step/step_plan.h"
#include "common/tensor/dtype.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"

namespace muster {

// Dense gradients become parameters on one of these.
enum class CallRoad { kServers, kAllReduce };

// A job's ranks, from which the calls of each kind of rank are recorded (RankCalls). Ranks are
// named by their kind, their position along kind_axes(). Immutable.
class JobCalls {
 public:
  // `schema` has the tables of the job, whose road may be another than its own. InvalidArgument:
  // the tensors cannot be divided.
  static absl::StatusOr<JobCalls> Create(const v1::TablesSchema& schema, const v1::JobSpec& spec,
                                         CallRoad road);

  const v1::JobSpec& spec() const { return spec_; }
  CallRoad road() const { return road_; }
  bool served() const { return road_ == CallRoad::kServers; }
  bool on_device() const { return spec_.compute().device() == v1::ComputeSpec::CUDA; }
  // Returns whether ranks hold rows of sparse tables, and whether the model has any.
  bool holds_rows() const;
  bool has_rows() const { return schema_.sparse_size() > 0; }
  const Mesh& mesh() const { return mesh_; }
  const ModelDivision& division() const { return division_; }
  // Returns the axes along which ranks' calls may differ. On servers experts lie in other blocks
  // than other ranks'.
  Axes kind_axes() const { return served() ? kShareAxes : kModelAxes; }
  int KindOf(int rank) const { return mesh_.Position(rank, kind_axes()); }
  // Returns the mesh of the kinds of ranks.
  Mesh kinds() const { return mesh_.Only(kind_axes()); }
  // Returns the stage of the job's steps.
  ModelStage Stage(int stage) const;

  // Returns the tensors and the layout of a rank, with the blocks of servers where these have it.
  // InvalidArgument: they cannot be laid out.
  absl::StatusOr<std::vector<TensorSpec>> TensorsOf(int rank) const;
  absl::StatusOr<DenseLayout> LayoutOf(int rank, absl::Span<const TensorSpec> tensors) const;

  // Returns whether ranks divide matrices that move as a whole (ShardState::divides_matrices).
  bool divides_matrices() const;
  // Returns how the ranks along kMatrixAxes of this rank divide them. InvalidArgument: they cannot
  // be laid out.
  absl::StatusOr<MatrixDivision> MatricesOf(int rank) const;

  // Returns the bytes that the rank at this position of a layer's ranks hands on over a boundary
  // between stages, which is behind this unit.
  uint64_t MessageBytes(int unit, uint64_t examples, int position) const;

 private:
  // Returns the position of a rank among those that divide the model on servers.
  int PartOf(int rank) const { return kinds().Position(rank, kServedAxes); }

  JobCalls(const v1::TablesSchema& schema, const v1::JobSpec& spec, CallRoad road);

  v1::TablesSchema schema_;
  v1::JobSpec spec_;
  CallRoad road_;
  Mesh mesh_;
  ModelDivision division_;
  std::vector<TensorSpec> tensors_;
  int units_ = 1;
  // Only with servers.
  absl::optional<ServedTensors> served_;
  // Each stage's first rank has these; only where messages have the width of a layer.
  std::vector<std::vector<TensorSpec>> boundary_tensors_;
};

// A step to record.
struct StepToRecord {
  // The examples of each of the step's micro-batches.
  std::vector<uint64_t> examples;
  // The rank's position along kHolderAxes; absent: what is recorded is the mean over its group
  // and over the ranks of its layers.
  absl::optional<int> shard;
  // Only with servers: the bytes that are asked for before they are due.
  uint64_t pull_window_bytes = kPullWindowBytes;
};

// The calls of one kind of rank. It walks the actions of a training step and asks, at each, the
// functions that ranks ask: which buckets are ready (bucket_plan.h), which units are gathered or
// pulled (unit_gathers.h, unit_pulls.h), complete (model_units.h) or shared (shared_sums.h).
// Immutable.
class RankCalls {
 public:
  // `job` outlives this. InvalidArgument: the rank's tensors cannot be laid out.
  static absl::StatusOr<std::unique_ptr<RankCalls>> Create(const JobCalls& job, int rank);

  RecordedStep Record(const StepToRecord& step) const;

  // Returns the bytes of the unit's weights that a server's partition sends when they are pulled.
  // REQUIRES: the job is on servers.
  const std::vector<std::vector<uint64_t>>& pulled_by_partition() const { return pulled_; }

 private:
  friend class StepRecorder;

  RankCalls(const JobCalls& job, int rank, std::vector<TensorSpec> tensors, DenseLayout layout);
  absl::Status PlanBuckets();
  absl::Status TakeServedBlocks();
  absl::Status TakeMatrices();
  void TakeLayers();

  const JobCalls& job_;
  const int rank_;
  const ModelStage stage_;
  const std::vector<TensorSpec> tensors_;
  const DenseLayout layout_;
  // The number of units up to the last with tensors.
  const int units_;
  const std::vector<std::vector<int>> tied_units_;
  const std::vector<std::vector<int>> complete_;
  const std::vector<std::vector<SharedSum>> shared_;
  const StageHolding holding_;
  const ShardLayout shards_;
  // The elements of a slice space that are trained.
  const uint64_t trained_slice_elements_;
  // Weights have these places; weights pulled in flight, too.
  absl::optional<UnitPlaces> places_;
  std::vector<GradientBucket> buckets_;
  // By unit, then by partition: bytes that are pulled. By unit: elements that are pushed.
  std::vector<std::vector<uint64_t>> pulled_;
  std::vector<uint64_t> pulled_bytes_;
  std::vector<uint64_t> pushed_elements_;
  DType wire_ = DType::kF32;
  // Only where ranks divide matrices.
  absl::optional<MatrixDivision> matrices_;
  // Indices of tensors that two stages have.
  std::vector<int> tied_;
  // By unit.
  std::vector<std::vector<DividedLayer>> layers_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_PLAN_CALLS_JOB_CALLS_H_

#include "common/plan/size/layout_validator.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/round_up.h"
#include "common/base/status_macros.h"
#include "common/job/job_road.h"
#include "common/mesh/job_mesh.h"
#include "common/partition/dense_layout.h"
#include "common/partition/local_tensors.h"
#include "common/partition/matrices.h"
#include "common/partition/parameter_groups.h"
#include "common/partition/schema.h"
#include "common/partition/served_layout.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// As DenseLayout has it.
constexpr uint64_t kMostElements = uint64_t{1} << 40;
// Each is a call to all workers in every step.
constexpr uint64_t kMostBuckets = 1 << 20;
// Blocks on servers may have as many (update.block_bytes).
constexpr uint64_t kMostMatrixBytes = 32 << 20;

absl::Status TooMany(absl::string_view field, uint64_t value, absl::string_view what,
                     uint64_t number, uint64_t most) {
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, ", which cuts the model's ",
                                                 what, " into up to ", number, ": at most ", most,
                                                 " are possible, so raise it"));
}

// Returns the shares of the first tensor rank, which has at least as much as any other. Refuses
// tensors that cannot be divided, of which the job leaves out the size.
absl::StatusOr<std::vector<TensorSpec>> FirstShares(const v1::JobSpec& spec,
                                                    const ModelSize& model) {
  const Mesh mesh = MeshOf(spec).Only(kExpertAxes | Axis::kTensor);
  const int ranks = mesh.size(Axis::kTensor);
  absl::StatusOr<std::vector<TensorSpec>> shares = LocalTensors(model.tensors, {mesh}, /*rank=*/0);
  if (shares.ok()) return shares;
  const absl::Status& status = shares.status();
  return absl::InvalidArgumentError(
      absl::StrCat("parallelism.tensor is ", ranks, "; but ", status.message(),
                   ". Set model.transformer.feed_forward, or model.transformer.vocabulary with "
                   "pad_vocabulary_to, to a multiple of ",
                   ranks));
}

// Checks that servers can hold the shares of all ranks that divide the model (CheckModelRanks).
absl::Status ValidateServedRanks(const v1::JobSpec& spec, const ModelSize& model) {
  if (TrainsByAllReduce(spec)) return absl::OkStatus();
  const absl::Status status =
      CheckModelRanks(SizeAlong(Axis::kTensor, spec), SizeAlong(Axis::kPipeline, spec),
                      SizeAlong(kExpertAxes, spec), model.tensors.size());
  if (status.ok()) return status;
  return absl::InvalidArgumentError(absl::StrCat("update.dense is PARAMETER_SERVER, but ",
                                                 status.message(),
                                                 ": lower parallelism.tensor, parallelism.pipeline "
                                                 "or parallelism.expert, or take update.dense "
                                                 "ALL_REDUCE"));
}

// Checks that each matrix of a job on servers, where it is one block, travels in one message.
absl::Status ValidateMatrices(const v1::JobSpec& spec, absl::Span<const TensorSpec> tensors) {
  if (TrainsByAllReduce(spec)) return absl::OkStatus();
  for (const TensorSpec& tensor : tensors) {
    for (const MatrixShare& matrix : MatrixShares(tensor)) {
      const uint64_t bytes = (matrix.end - matrix.begin) * sizeof(float);
      if (bytes <= kMostMatrixBytes) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("optimizer.name is \"muon\", but tensor ", tensor.name, " has a matrix of ",
                       matrix.rows, " rows and ", matrix.columns, " columns, ", bytes,
                       " bytes: servers take it in one message, which has at "
                       "most ",
                       kMostMatrixBytes, "; take update.dense ALL_REDUCE, or adamw"));
    }
  }
  return absl::OkStatus();
}

// Returns the most blocks into which the job's tensors are divided.
uint64_t MostBlocks(const v1::JobSpec& spec, const ModelSize& model,
                    absl::Span<const TensorSpec> first_shares, uint64_t block_elements) {
  const uint64_t ranks = TrainsByAllReduce(spec) ? 1 : SizeAlong(Axis::kTensor, spec);
  uint64_t blocks = 0;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const TensorSpec& tensor = ranks == 1 ? model.tensors[i] : first_shares[i];
    if (!tensor.tied_to.empty()) continue;
    // A block does not cross the ends of elements that some ranks have in common, or of matrices.
    const uint64_t of_share = CeilDivide<uint64_t>(tensor.elements(), block_elements) +
                              2 * tensor.shared.size() + tensor.matrix_rows.size();
    blocks += of_share * (tensor.placement.kind == Placement::Kind::kShard ? ranks : 1);
  }
  return blocks;
}

}  // namespace

absl::Status ValidateLayout(const v1::JobSpec& spec, const ModelSize& model) {
  std::vector<TensorSpec> tensors = model.tensors;
  MUSTER_RETURN_IF_ERROR(SetParameterGroups(spec, absl::MakeSpan(tensors)));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<TensorSpec> first_shares, FirstShares(spec, model));
  MUSTER_RETURN_IF_ERROR(ValidateServedRanks(spec, model));
  MUSTER_RETURN_IF_ERROR(ValidateMatrices(spec, tensors));
  if (model.dense() > kMostElements) {
    return absl::InvalidArgumentError(
        absl::StrCat("model has ", model.dense(), " dense parameters: at most 2^40 are possible"));
  }
  const uint64_t block_elements = LayoutOptions(spec.update()).block_bytes / sizeof(float);
  const uint64_t blocks = MostBlocks(spec, model, first_shares, block_elements);
  if (blocks > DenseLayout::kMaxBlocks) {
    return TooMany("update.block_bytes", block_elements * sizeof(float), "parameters", blocks,
                   DenseLayout::kMaxBlocks);
  }
  const uint64_t bucket_bytes = spec.update().bucket_bytes();
  if (!TrainsByAllReduce(spec) || bucket_bytes == 0) return absl::OkStatus();
  const uint64_t buckets = CeilDivide<uint64_t>(model.dense() * sizeof(float), bucket_bytes);
  if (buckets <= kMostBuckets) return absl::OkStatus();
  return TooMany("update.bucket_bytes", bucket_bytes, "gradients", buckets, kMostBuckets);
}

}  // namespace muster

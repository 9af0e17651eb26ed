#include "common/plan/layout_validator.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/base/round_up.h"
#include "common/base/status_macros.h"
#include "common/job/job_road.h"
#include "common/mesh/tensor_ranks.h"
#include "common/partition/dense_layout.h"
#include "common/partition/local_tensors.h"
#include "common/partition/schema.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// As DenseLayout has it.
constexpr uint64_t kMostElements = uint64_t{1} << 40;
// Each is a call to all workers in every step.
constexpr uint64_t kMostBuckets = 1 << 20;

absl::Status TooMany(absl::string_view field, uint64_t value, absl::string_view what,
                     uint64_t number, uint64_t most) {
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, ", which cuts the model's ",
                                                 what, " into up to ", number, ": at most ", most,
                                                 " are possible, so raise it"));
}

// Checks that tensor ranks can divide tensors whose sizes the job leaves out.
absl::Status ValidateShares(const v1::JobSpec& spec, const ModelSize& model) {
  const uint32_t ranks = TensorRanks(spec);
  const absl::Status status =
      LocalTensors(model.tensors, {.tensor_ranks = static_cast<int>(ranks)}, /*rank=*/0).status();
  if (status.ok()) return status;
  return absl::InvalidArgumentError(
      absl::StrCat("parallelism.tensor is ", ranks, "; but ", status.message(),
                   ". Set model.transformer.feed_forward, or model.transformer.vocabulary with "
                   "pad_vocabulary_to, to a multiple of ",
                   ranks));
}

}  // namespace

absl::Status ValidateLayout(const v1::JobSpec& spec, const ModelSize& model) {
  MUSTER_RETURN_IF_ERROR(ValidateShares(spec, model));
  if (model.dense() > kMostElements) {
    return absl::InvalidArgumentError(
        absl::StrCat("model has ", model.dense(), " dense parameters: at most 2^40 are possible"));
  }
  const uint64_t block_elements = LayoutOptions(spec.update()).block_bytes / sizeof(float);
  uint64_t blocks = 0;
  for (const TensorSpec& tensor : model.tensors) {
    if (tensor.tied_to.empty()) blocks += CeilDivide<uint64_t>(tensor.elements(), block_elements);
  }
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

#include "common/job/validation/tensor_validator.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/round_up.h"
#include "common/base/status_macros.h"
#include "common/job/job_road.h"
#include "common/job/validation/invalid.h"
#include "common/job/validation/served_ranks_validator.h"
#include "common/mesh/job_mesh.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

constexpr absl::string_view kField = "parallelism.tensor";
// Most degrees that a refusal lists.
constexpr size_t kMostListed = 8;

// Returns the first numbers above 1 that divide `whole`.
std::string Divisors(uint64_t whole) {
  std::vector<uint64_t> divisors;
  for (uint64_t d = 2; d <= whole && divisors.size() < kMostListed; ++d) {
    if (whole % d == 0) divisors.push_back(d);
  }
  return absl::StrJoin(divisors, ", ");
}

// Checks that the ranks get equal parts of something.
absl::Status Divides(const v1::JobSpec& spec, absl::string_view what, uint64_t whole) {
  const uint32_t ranks = SizeAlong(Axis::kTensor, spec);
  if (whole % ranks == 0) return absl::OkStatus();
  const std::string divisors = Divisors(whole);
  return Invalid(kField, ranks,
                 absl::StrCat("but ", what, " is ", whole, ", which it must divide: ",
                              divisors.empty() ? "leave it out" : "take one of ", divisors,
                              ", or change ", what));
}

absl::Status ValidateTransformer(const v1::JobSpec& spec) {
  const v1::TransformerSpec& transformer = spec.model().transformer();
  const uint32_t ranks = SizeAlong(Axis::kTensor, spec);
  MUSTER_RETURN_IF_ERROR(Divides(spec, "model.transformer.heads", transformer.heads()));
  if (const uint32_t kv_heads = transformer.kv_heads();
      kv_heads > 0 && kv_heads % ranks != 0 && ranks % kv_heads != 0) {
    return Invalid(kField, ranks,
                   absl::StrCat("but model.transformer.kv_heads is ", kv_heads,
                                ": one of the two must divide the other, so that ranks have whole "
                                "key-value heads, or one in common"));
  }
  if (transformer.query_key_norm() == v1::TransformerSpec::WHOLE_WIDTH) {
    return Invalid(
        kField, ranks,
        "but model.transformer.query_key_norm is WHOLE_WIDTH, which normalizes the heads "
        "of all ranks together: leave it out, and divide examples, contexts or stages");
  }
  // Every tensor rank has all experts.
  const bool all_experts = transformer.has_moe() && transformer.moe().dense_layers().empty();
  if (transformer.feed_forward() > 0 && !all_experts) {
    MUSTER_RETURN_IF_ERROR(
        Divides(spec, "model.transformer.feed_forward", transformer.feed_forward()));
  }
  const uint64_t rows =
      RoundUp<uint64_t>(transformer.vocabulary(), std::max(1u, transformer.pad_vocabulary_to()));
  if (rows % ranks == 0) return absl::OkStatus();
  return Invalid("model.transformer.vocabulary", transformer.vocabulary(),
                 absl::StrCat("which makes ", rows,
                              " rows of the embedding, but parallelism.tensor "
                              "is ",
                              ranks,
                              ", which must divide these: set "
                              "model.transformer.pad_vocabulary_to to a multiple of ",
                              ranks));
}

absl::Status ValidatePerceptron(const v1::JobSpec& spec) {
  // Pairs of layers are divided, the first of them by outputs.
  const v1::MlpSpec& mlp = spec.model().mlp();
  for (int layer = 0; layer < mlp.hidden_size(); layer += 2) {
    MUSTER_RETURN_IF_ERROR(
        Divides(spec, absl::StrCat("model.mlp.hidden[", layer, "]"), mlp.hidden(layer)));
  }
  return absl::OkStatus();
}

absl::Status ValidateModel(const v1::JobSpec& spec) {
  switch (spec.model().model_case()) {
    case v1::ModelSpec::kTransformer:
      return ValidateTransformer(spec);
    case v1::ModelSpec::kMlp:
      return ValidatePerceptron(spec);
    default:
      return Invalid(kField, SizeAlong(Axis::kTensor, spec),
                     "but only layers of model.transformer and model.mlp are divided: leave it "
                     "out, and the workers share the examples instead");
  }
}

// Checks how few workers the job may go on with: data ranks are there as a whole, or not at all.
absl::Status ValidateMinWorkers(const v1::JobSpec& spec) {
  const uint32_t ranks = SizeAlong(Axis::kTensor, spec);
  if (spec.min_workers() % ranks == 0) return absl::OkStatus();
  return Invalid("min_workers", spec.min_workers(),
                 absl::StrCat("but a data rank of this job is ", ranks,
                              " workers (parallelism.tensor), none of which can go on alone: take "
                              "a multiple of ",
                              ranks));
}

// Checks that whoever steps matrices that move as a whole can have them whole.
absl::Status ValidateMatrices(const v1::JobSpec& spec) {
  if (spec.optimizer().name() != "muon" || TrainsByAllReduce(spec)) return absl::OkStatus();
  return Invalid(kField, SizeAlong(Axis::kTensor, spec),
                 "but optimizer.name is muon and update.dense PARAMETER_SERVER, where servers hold "
                 "the shares of tensor ranks, and Muon moves whole matrices: take update.dense "
                 "ALL_REDUCE, leave parallelism.tensor out, or take adamw");
}

}  // namespace

absl::Status ValidateTensor(const v1::JobSpec& spec) {
  const v1::ParallelismSpec& parallelism = spec.parallelism();
  const char* const sequence = parallelism.sequence() ? "true" : "false";
  if (SizeAlong(Axis::kTensor, spec) == 1) {
    if (!parallelism.has_sequence()) return absl::OkStatus();
    return Invalid("parallelism.sequence", sequence,
                   "but parallelism.tensor is 1, so each rank computes all tokens of its "
                   "examples: leave it out, or raise parallelism.tensor");
  }
  MUSTER_RETURN_IF_ERROR(ValidateModel(spec));
  if (parallelism.has_sequence() && !spec.model().has_transformer()) {
    return Invalid("parallelism.sequence", sequence,
                   "but only model.transformer has tokens to divide: leave it out");
  }
  MUSTER_RETURN_IF_ERROR(ValidateMatrices(spec));
  MUSTER_RETURN_IF_ERROR(ValidateServedRanks(spec, kField, SizeAlong(Axis::kTensor, spec)));
  return ValidateMinWorkers(spec);
}

}  // namespace muster

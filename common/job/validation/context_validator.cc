#include "common/job/validation/context_validator.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/validation/invalid.h"
#include "common/job/validation/served_ranks_validator.h"
#include "common/mesh/job_mesh.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

constexpr absl::string_view kContextField = "parallelism.context";
constexpr absl::string_view kExchangeField = "parallelism.context_exchange";

// Checks that each of the context ranks can have as many heads of a tensor rank.
absl::Status ValidateHeads(const v1::JobSpec& spec, uint32_t ranks) {
  const uint32_t tensor = SizeAlong(Axis::kTensor, spec);
  const v1::TransformerSpec& transformer = spec.model().transformer();
  const uint32_t all = std::max(1u, transformer.heads());
  const uint32_t all_keys = transformer.kv_heads() > 0 ? transformer.kv_heads() : all;
  const uint32_t heads = all / tensor;
  const uint32_t keys = std::max(1u, all_keys / tensor);
  const std::string of_each = tensor > 1 ? " of each tensor rank" : "";
  if (heads % ranks != 0) {
    return Invalid(
        kExchangeField, "HEADS",
        absl::StrCat("but ", ranks, " context ranks cannot share out ", heads, " query heads",
                     of_each, ": take RING, or a parallelism.context that divides them"));
  }
  if (keys % ranks == 0 || ranks % keys == 0) return absl::OkStatus();
  return Invalid(kExchangeField, "HEADS",
                 absl::StrCat("but of ", keys, " key-value heads", of_each, " and ", ranks,
                              " context ranks neither divides the other: take RING, or another "
                              "parallelism.context"));
}

}  // namespace

absl::Status ValidateContext(const v1::JobSpec& spec) {
  const v1::ParallelismSpec::ContextExchange exchange = spec.parallelism().context_exchange();
  if (!v1::ParallelismSpec::ContextExchange_IsValid(exchange)) {
    return Invalid(kExchangeField, static_cast<int>(exchange), "it must be RING, GATHER or HEADS");
  }
  const uint32_t ranks = SizeAlong(kContext, spec);
  if (ranks == 1) {
    if (exchange == v1::ParallelismSpec::CONTEXT_EXCHANGE_UNSPECIFIED) return absl::OkStatus();
    return Invalid(kExchangeField, v1::ParallelismSpec::ContextExchange_Name(exchange),
                   "but parallelism.context is 1, so each rank has all keys and values of its "
                   "examples: leave it out, or raise parallelism.context");
  }
  if (!spec.model().has_transformer()) {
    return Invalid(kContextField, ranks,
                   "but only examples of model.transformer are sequences, which ranks can share "
                   "out: leave it out, and the workers share the examples instead");
  }
  MUSTER_RETURN_IF_ERROR(ValidateServedRanks(spec, kContextField, ranks));
  if (const uint32_t tokens = spec.model().transformer().context(); tokens % (2 * ranks) != 0) {
    return Invalid(kContextField, ranks,
                   absl::StrCat("but model.transformer.context is ", tokens,
                                ", of which each rank takes two chunks: take a context that ",
                                2 * ranks, " divides"));
  }
  if (exchange == v1::ParallelismSpec::HEADS) MUSTER_RETURN_IF_ERROR(ValidateHeads(spec, ranks));
  // Data ranks are there as a whole, or not at all.
  const uint32_t together = SizeAlong(kModelAxes, spec);
  if (spec.min_workers() % together == 0) return absl::OkStatus();
  return Invalid(
      "min_workers", spec.min_workers(),
      absl::StrCat("but a data rank of this job is ", together,
                   " workers, none of which can go on alone: take a multiple of ", together));
}

}  // namespace muster

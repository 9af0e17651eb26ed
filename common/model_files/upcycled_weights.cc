#include "common/model_files/upcycled_weights.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/partition/initial_values.h"
#include "common/partition/tensor_spec.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

constexpr uint64_t kRouterSeed = 1;
// That of a transformer's matrices.
constexpr float kRouterDeviation = 0.02f;

// Without it copies stay alike: the few that are chosen first are trained alone.
constexpr float kUsualAuxiliaryLoss = 0.01f;

constexpr absl::string_view kUp = ".up.weight";
constexpr absl::string_view kDown = ".down.weight";
constexpr absl::string_view kExperts = ".experts";
constexpr absl::string_view kRouter = ".router.weight";

}  // namespace

absl::StatusOr<std::unique_ptr<const UpcycledWeights>> UpcycledWeights::Create(
    const Weights& weights, uint32_t experts, uint32_t top_k) {
  if (weights.spec().has_moe()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model has ", weights.spec().moe().experts(),
                     " experts already; only a dense model's feed-forward layers can be copied"));
  }
  if (!weights.spec().no_biases()) {
    return absl::InvalidArgumentError(
        "the model has biases, and experts have none, so copies would not compute what its "
        "feed-forward layers do; take a model without biases, such as Llama");
  }
  return absl::WrapUnique(new UpcycledWeights(weights, experts, top_k));
}

UpcycledWeights::UpcycledWeights(const Weights& weights, uint32_t experts, uint32_t top_k)
    : weights_(weights), spec_(std::make_unique<v1::TransformerSpec>(weights.spec())) {
  v1::MoeSpec& moe = *spec_->mutable_moe();
  moe.set_experts(experts);
  moe.set_top_k(top_k);
  moe.set_normalize(true);
  moe.set_auxiliary_loss(kUsualAuxiliaryLoss);
  FillTransformerDefaults(spec_->vocabulary(), *spec_);
  for (const MusterTensor& tensor : weights.tensors()) {
    if (absl::EndsWith(tensor.name, kUp)) {
      const absl::string_view block = absl::StripSuffix(tensor.name, kUp);
      tensors_.push_back({absl::StrCat(block, kRouter), {experts, tensor.shape[1]}});
    }
    tensors_.push_back(tensor);
    for (const absl::string_view part : {kUp, kDown}) {
      if (!absl::EndsWith(tensor.name, part)) continue;
      tensors_.back().name = absl::StrCat(absl::StripSuffix(tensor.name, part), kExperts, part);
      tensors_.back().shape[0] *= experts;
    }
  }
}

UpcycledWeights::~UpcycledWeights() = default;

absl::Status UpcycledWeights::Read(const std::string& tensor, std::vector<float>& values) const {
  if (absl::EndsWith(tensor, kRouter)) {
    for (const MusterTensor& router : tensors_) {
      if (router.name != tensor) continue;
      values.resize(router.shape[0] * router.shape[1]);
      InitialValues(
          {.name = tensor,
           .shape = router.shape,
           .initializer = {.kind = Initializer::Kind::kNormal, .scale = kRouterDeviation}},
          kRouterSeed, 0, absl::MakeSpan(values));
      return absl::OkStatus();
    }
  }
  for (const absl::string_view part : {kUp, kDown}) {
    const std::string ending = absl::StrCat(kExperts, part);
    if (!absl::EndsWith(tensor, ending)) continue;
    MUSTER_RETURN_IF_ERROR(
        weights_.Read(absl::StrCat(absl::StripSuffix(tensor, ending), part), values));
    const size_t each = values.size();
    values.resize(each * spec_->moe().experts());
    for (size_t i = each; i < values.size(); ++i) values[i] = values[i - each];
    return absl::OkStatus();
  }
  return weights_.Read(tensor, values);
}

}  // namespace muster

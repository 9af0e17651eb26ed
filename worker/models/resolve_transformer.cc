#include "worker/models/resolve_transformer.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/model_limits.h"
#include "common/base/round_up.h"
#include "common/base/status_macros.h"
#include "common/job/adapter_targets.h"
#include "common/job/head_width.h"
#include "common/job/validation/attention_validator.h"
#include "common/job/validation/expert_validator.h"
#include "proto/job.pb.h"
#include "worker/models/checks.h"

namespace muster {
namespace {

using Spec = v1::TransformerSpec;

constexpr int64_t kFeedForwardMultiple = 64;

int64_t UsualFeedForward(const Spec& spec) {
  const int64_t width = spec.width();
  if (spec.activation() != Spec::SWIGLU) return 4 * width;
  return RoundUp(CeilDivide(8 * width, 3), kFeedForwardMultiple);
}

absl::Status CheckProbability(absl::string_view field, float value) {
  if (value >= 0 && value < 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("model.transformer.", field, " is ", value, "; it must be in [0, 1)."));
}

absl::Status CheckNumbers(const Spec& spec) {
  MUSTER_RETURN_IF_ERROR(CheckProbability("dropout", spec.dropout()));
  MUSTER_RETURN_IF_ERROR(CheckProbability("attention_dropout", spec.attention_dropout()));
  MUSTER_RETURN_IF_ERROR(CheckProbability("label_smoothing", spec.label_smoothing()));
  if (!(spec.z_loss() >= 0 && std::isfinite(spec.z_loss()))) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.transformer.z_loss is ", spec.z_loss(),
                     "; it must be a finite number of at least 0 (usually about 1e-4)."));
  }
  if (spec.dropout() > 0 && uint64_t{spec.context()} * spec.width() > kMaxDropoutElements) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.transformer.dropout is ", spec.dropout(), ", but context · width is ",
                     uint64_t{spec.context()} * spec.width(), "; with dropout at most ",
                     kMaxDropoutElements, " is possible."));
  }
  if (!(spec.norm_epsilon() >= 0 && spec.norm_epsilon() < 1)) {
    return absl::InvalidArgumentError(absl::StrCat("model.transformer.norm_epsilon is ",
                                                   spec.norm_epsilon(),
                                                   "; it must be in (0, 1) (0 stands for 1e-5)."));
  }
  return absl::OkStatus();
}

// Readers of files must be able to tell the vocabulary from its padding.
absl::Status CheckPadding(const Spec& spec) {
  MUSTER_RETURN_IF_ERROR(CheckField("model.transformer.pad_vocabulary_to", spec.pad_vocabulary_to(),
                                    0, kMaxVocabularyMultiple));
  if (spec.pad_vocabulary_to() <= 1 || spec.vocabulary() != 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("model.transformer.pad_vocabulary_to is ", spec.pad_vocabulary_to(),
                   ", but model.transformer.vocabulary is left out; set it to the number of the "
                   "tokenizer's tokens."));
}

// Returns the factor by which DYNAMIC scaling raises the base: the context stretches what turns
// slowest `factor` times as fast as itself.
double DynamicGrowth(const Spec& spec) {
  const v1::RotaryScaling& scaling = spec.rotary_scaling();
  const double ratio =
      std::max(1.0, static_cast<double>(spec.context()) / scaling.original_context());
  const double factor = scaling.factor();
  const double D = HeadWidth(spec);
  return std::pow(factor * ratio - (factor - 1), D / (D - 2));
}

RotaryAngles ResolveAngles(const Spec& spec) {
  RotaryAngles angles;
  const auto set = [](float given, double& number) {
    if (given != 0) number = given;
  };
  set(spec.rotary_base(), angles.base);
  if (!spec.has_rotary_scaling()) return angles;
  const v1::RotaryScaling& scaling = spec.rotary_scaling();
  if (scaling.type() == v1::RotaryScaling::DYNAMIC) {
    angles.base *= DynamicGrowth(spec);
    return angles;
  }
  angles.factor = scaling.factor();
  angles.original_context = scaling.original_context();
  set(scaling.low_factor(), angles.low_factor);
  set(scaling.high_factor(), angles.high_factor);
  set(scaling.beta_fast(), angles.beta_fast);
  set(scaling.beta_slow(), angles.beta_slow);
  if (scaling.type() == v1::RotaryScaling::LINEAR) {
    angles.scaling = RotaryAngles::Scaling::kLinear;
  } else if (scaling.type() == v1::RotaryScaling::LLAMA3) {
    angles.scaling = RotaryAngles::Scaling::kLlama3;
  } else {
    angles.scaling = RotaryAngles::Scaling::kYarn;
    angles.amplitude = 0.1 * std::log(angles.factor) + 1;
    set(scaling.attention_factor(), angles.amplitude);
  }
  return angles;
}

ExpertShape ResolveExperts(const v1::MoeSpec& spec, int64_t feed_forward) {
  ExpertShape shape;
  shape.experts = spec.experts();
  shape.top_k = spec.top_k();
  shape.width = spec.expert_width() == 0 ? feed_forward : spec.expert_width();
  shape.shared_width = spec.shared_width();
  shape.shared_gate = spec.shared_gate();
  if (spec.scores() == v1::MoeSpec::SIGMOID) shape.scores = RouterShape::Scores::kSigmoid;
  shape.normalize = spec.normalize();
  if (spec.scaling() != 0) shape.scaling = spec.scaling();
  if (spec.groups() > 0) {
    shape.groups = spec.groups();
    shape.top_groups = spec.top_groups();
  }
  shape.auxiliary = spec.auxiliary_loss();
  shape.counts_together = spec.auxiliary_scope() == v1::MoeSpec::MICRO_BATCH ||
                          spec.auxiliary_scope() == v1::MoeSpec::GLOBAL_BATCH;
  shape.counts_of_all_ranks = spec.auxiliary_scope() == v1::MoeSpec::GLOBAL_BATCH;
  shape.capacity = spec.capacity_factor();
  shape.z = spec.z_loss();
  if (spec.selection_bias()) {
    shape.bias_rate = spec.bias_rate() == 0 ? kUsualBiasRate : spec.bias_rate();
  }
  shape.dense_layers.assign(spec.dense_layers().begin(), spec.dense_layers().end());
  return shape;
}

}  // namespace

absl::StatusOr<TransformerShape> ResolveTransformer(const v1::TransformerSpec& spec,
                                                    int64_t data_vocabulary) {
  MUSTER_RETURN_IF_ERROR(
      CheckField("model.transformer.layers", spec.layers(), 1, kMaxTransformerLayers));
  MUSTER_RETURN_IF_ERROR(CheckField("model.transformer.width", spec.width(), 1, kMaxWidth));
  MUSTER_RETURN_IF_ERROR(
      CheckField("model.transformer.feed_forward", spec.feed_forward(), 0, kMaxFeedForward));
  MUSTER_RETURN_IF_ERROR(CheckField("model.transformer.context", spec.context(), 2, kMaxContext));
  MUSTER_RETURN_IF_ERROR(ValidateAttention(spec));
  MUSTER_RETURN_IF_ERROR(CheckNumbers(spec));
  if (spec.vocabulary() != 0) {
    MUSTER_RETURN_IF_ERROR(CheckField("model.transformer.vocabulary", spec.vocabulary(),
                                      data_vocabulary, kMaxVocabulary));
  }
  MUSTER_RETURN_IF_ERROR(CheckPadding(spec));
  TransformerShape shape;
  shape.layers = spec.layers();
  shape.width = spec.width();
  shape.heads = spec.heads();
  shape.head_columns = HeadWidth(spec);
  shape.kv_heads = spec.kv_heads() == 0 ? spec.heads() : spec.kv_heads();
  shape.feed_forward = spec.feed_forward() == 0 ? UsualFeedForward(spec) : spec.feed_forward();
  shape.vocabulary = spec.vocabulary() == 0 ? data_vocabulary : spec.vocabulary();
  if (const int64_t multiple = spec.pad_vocabulary_to(); multiple > 1) {
    shape.padded_vocabulary = RoundUp(shape.vocabulary, multiple);
  }
  shape.label_smoothing = spec.label_smoothing();
  shape.logits_z = spec.z_loss();
  shape.context = spec.context();
  if (spec.norm() == Spec::RMS_NORM) shape.norm = TransformerShape::Norm::kRmsNorm;
  if (spec.positions() == Spec::ROTARY) shape.positions = TransformerShape::Positions::kRotary;
  if (spec.activation() == Spec::SWIGLU) {
    shape.activation = TransformerShape::Activation::kSwiGlu;
  }
  shape.tied_head = !spec.separate_head();
  shape.biases = !spec.no_biases();
  shape.attention_biases = spec.attention_biases();
  if (spec.query_key_norm() == Spec::PER_HEAD) {
    shape.query_key_norm = TransformerShape::QueryKeyNorm::kPerHead;
  } else if (spec.query_key_norm() == Spec::WHOLE_WIDTH) {
    shape.query_key_norm = TransformerShape::QueryKeyNorm::kWholeWidth;
  }
  shape.window = spec.sliding_window();
  shape.whole_layers.assign(spec.whole_layers().begin(), spec.whole_layers().end());
  shape.dropout = spec.dropout();
  shape.attention_dropout = spec.attention_dropout();
  shape.rotary = ResolveAngles(spec);
  if (spec.norm_epsilon() != 0) shape.norm_epsilon = spec.norm_epsilon();
  if (spec.has_moe()) {
    MUSTER_RETURN_IF_ERROR(ValidateExperts(spec));
    shape.experts = ResolveExperts(spec.moe(), shape.feed_forward);
  }
  return shape;
}

AdapterShape ResolveAdapter(const v1::AdapterSpec& spec) {
  return {.rank = spec.rank(),
          .scale = AdapterScale(spec),
          .dropout = spec.dropout(),
          .targets = TargetsOf(spec)};
}

}  // namespace muster

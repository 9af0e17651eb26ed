#include "common/job/validation/attention_validator.h"

#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/base/model_limits.h"
#include "common/base/status_macros.h"
#include "common/job/head_width.h"
#include "common/job/validation/invalid.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using Scaling = v1::RotaryScaling;
using Spec = v1::TransformerSpec;

absl::Status CheckMultiple(absl::string_view whole_field, uint64_t whole,
                           absl::string_view part_field, uint64_t part) {
  if (whole % part == 0) return absl::OkStatus();
  return Invalid(whole_field, absl::StrCat(whole),
                 absl::StrCat("it must be a multiple of ", part_field, ", which is ", part));
}

absl::Status CheckHeads(const Spec& spec) {
  const bool says_width = spec.head_width() > 0;
  if (spec.heads() < 1 || spec.heads() > spec.width()) {
    return Invalid("model.transformer.heads", absl::StrCat(spec.heads()),
                   absl::StrCat("it must be from 1 to ", spec.width()));
  }
  if (!says_width) {
    MUSTER_RETURN_IF_ERROR(CheckMultiple("model.transformer.width", spec.width(),
                                         "model.transformer.heads", spec.heads()));
  }
  if (spec.kv_heads() > 0) {
    MUSTER_RETURN_IF_ERROR(CheckMultiple("model.transformer.heads", spec.heads(),
                                         "model.transformer.kv_heads", spec.kv_heads()));
  }
  const uint32_t width = HeadWidth(spec);
  if (width > kMaxHeadDim) {
    if (says_width) {
      return Invalid("model.transformer.head_width", absl::StrCat(width),
                     absl::StrCat("at most ", kMaxHeadDim, " is possible"));
    }
    return Invalid("model.transformer.heads", absl::StrCat(spec.heads()),
                   absl::StrCat("which makes each ", width, " wide; at most ", kMaxHeadDim,
                                " is possible, take more heads"));
  }
  if (uint64_t{spec.heads()} * width > kMaxWidth) {
    return Invalid("model.transformer.head_width", absl::StrCat(width),
                   absl::StrCat("which makes ", spec.heads(), " heads wider than ", kMaxWidth,
                                " together; take fewer or narrower ones"));
  }
  if (spec.positions() == Spec::ROTARY && width % 2 != 0) {
    return Invalid("model.transformer.positions", "ROTARY",
                   absl::StrCat("but heads are ", width,
                                says_width ? " wide (head_width)" : " wide (width / heads)",
                                "; it turns pairs, so that must be even"));
  }
  return absl::OkStatus();
}

absl::Status RequireNumber(absl::string_view field, float value, float above,
                           absl::string_view remedy) {
  if (value > above && std::isfinite(value)) return absl::OkStatus();
  return Invalid(absl::StrCat("model.transformer.rotary_scaling.", field), absl::StrCat(value),
                 remedy);
}

absl::Status RefuseOfOthers(absl::string_view field, float value, absl::string_view type) {
  if (value == 0) return absl::OkStatus();
  return Invalid(
      absl::StrCat("model.transformer.rotary_scaling.", field), absl::StrCat(value),
      absl::StrCat("but only rotary_scaling { type: ", type, " } reads it; leave it out"));
}

// Checks the numbers of one type, and that there are none of another.
absl::Status CheckScaling(const Scaling& scaling) {
  const bool linear = scaling.type() == Scaling::LINEAR;
  const bool llama = scaling.type() == Scaling::LLAMA3;
  const bool yarn = scaling.type() == Scaling::YARN;
  if (!linear && !llama && !yarn && scaling.type() != Scaling::DYNAMIC) {
    return Invalid("model.transformer.rotary_scaling.type",
                   absl::StrCat(static_cast<int>(scaling.type())),
                   "it must be LINEAR, LLAMA3, YARN or DYNAMIC");
  }
  if (!(scaling.factor() >= 1) || std::isinf(scaling.factor())) {
    return Invalid("model.transformer.rotary_scaling.factor", absl::StrCat(scaling.factor()),
                   "it must be at least 1: how many times longer contexts are to be");
  }
  if (linear && scaling.original_context() > 0) {
    return Invalid("model.transformer.rotary_scaling.original_context",
                   absl::StrCat(scaling.original_context()),
                   "but LINEAR scales angles alike whatever it is; leave it out");
  }
  if (!linear && (scaling.original_context() < 1 || scaling.original_context() > kMaxContext)) {
    return Invalid("model.transformer.rotary_scaling.original_context",
                   absl::StrCat(scaling.original_context()),
                   absl::StrCat("it must be the context that the model was first trained on, from "
                                "1 to ",
                                kMaxContext));
  }
  if (!llama) {
    MUSTER_RETURN_IF_ERROR(RefuseOfOthers("low_factor", scaling.low_factor(), "LLAMA3"));
    MUSTER_RETURN_IF_ERROR(RefuseOfOthers("high_factor", scaling.high_factor(), "LLAMA3"));
  } else {
    const float low = scaling.low_factor() == 0 ? 1 : scaling.low_factor();
    const float high = scaling.high_factor() == 0 ? 4 : scaling.high_factor();
    MUSTER_RETURN_IF_ERROR(
        RequireNumber("low_factor", low, 0, "it must be above 0 (0 stands for 1)"));
    MUSTER_RETURN_IF_ERROR(RequireNumber(
        "high_factor", high, low,
        absl::StrCat("it must be above low_factor, which is ", low, " (0 stands for 4)")));
  }
  if (!yarn) {
    MUSTER_RETURN_IF_ERROR(RefuseOfOthers("beta_fast", scaling.beta_fast(), "YARN"));
    MUSTER_RETURN_IF_ERROR(RefuseOfOthers("beta_slow", scaling.beta_slow(), "YARN"));
    return RefuseOfOthers("attention_factor", scaling.attention_factor(), "YARN");
  }
  const float fast = scaling.beta_fast() == 0 ? 32 : scaling.beta_fast();
  const float slow = scaling.beta_slow() == 0 ? 1 : scaling.beta_slow();
  MUSTER_RETURN_IF_ERROR(
      RequireNumber("beta_slow", slow, 0, "it must be above 0 (0 stands for 1)"));
  MUSTER_RETURN_IF_ERROR(RequireNumber(
      "beta_fast", fast, slow,
      absl::StrCat("it must be above beta_slow, which is ", slow, " (0 stands for 32)")));
  if (scaling.attention_factor() == 0) return absl::OkStatus();
  return RequireNumber("attention_factor", scaling.attention_factor(), 0,
                       "it must be above 0 (0 stands for 0.1 ln(factor) + 1)");
}

absl::Status CheckAngles(const Spec& spec) {
  if (!(spec.rotary_base() == 0 || (spec.rotary_base() > 1 && std::isfinite(spec.rotary_base())))) {
    return Invalid("model.transformer.rotary_base", absl::StrCat(spec.rotary_base()),
                   "it must be above 1 (0 stands for 10000)");
  }
  if (!spec.has_rotary_scaling()) return absl::OkStatus();
  if (spec.positions() != Spec::ROTARY) {
    return Invalid("model.transformer.rotary_scaling", "set",
                   "but positions are not ROTARY; leave one of them out");
  }
  if (spec.rotary_scaling().type() == Scaling::DYNAMIC && HeadWidth(spec) <= 2) {
    return Invalid("model.transformer.rotary_scaling.type", "DYNAMIC",
                   absl::StrCat("but heads are ", HeadWidth(spec),
                                " wide, too narrow for it; take LINEAR, or wider heads"));
  }
  return CheckScaling(spec.rotary_scaling());
}

absl::Status CheckWindow(const Spec& spec) {
  if (spec.sliding_window() > kMaxContext) {
    return Invalid("model.transformer.sliding_window", absl::StrCat(spec.sliding_window()),
                   absl::StrCat("it must be from 1 to ", kMaxContext,
                                "; 0 lets tokens attend to all before them"));
  }
  const auto& whole = spec.whole_layers();
  if (whole.empty()) return absl::OkStatus();
  const auto refuse = [](uint32_t layer, absl::string_view remedy) {
    return Invalid("model.transformer.whole_layers", absl::StrCat(layer), remedy);
  };
  if (spec.sliding_window() == 0) {
    return refuse(whole[0],
                  "but there is no sliding_window, so all layers are whole; leave one of them out");
  }
  for (int i = 0; i < whole.size(); ++i) {
    if (whole[i] >= spec.layers()) {
      return refuse(whole[i], absl::StrCat("layers are counted from 0 to ", spec.layers() - 1));
    }
    if (i > 0 && whole[i] <= whole[i - 1]) {
      return refuse(whole[i], "layers must be in order, each once");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateAttention(const Spec& spec) {
  MUSTER_RETURN_IF_ERROR(CheckHeads(spec));
  MUSTER_RETURN_IF_ERROR(CheckAngles(spec));
  if (!Spec::QueryKeyNorm_IsValid(spec.query_key_norm())) {
    return Invalid("model.transformer.query_key_norm",
                   absl::StrCat(static_cast<int>(spec.query_key_norm())),
                   "it must be NONE, PER_HEAD or WHOLE_WIDTH");
  }
  return CheckWindow(spec);
}

}  // namespace muster

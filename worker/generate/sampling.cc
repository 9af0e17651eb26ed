#include "worker/generate/sampling.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

absl::Status CheckFinite(absl::Span<const float> logits) {
  if (logits.empty()) return absl::InvalidArgumentError("there are no logits to choose from");
  for (size_t token = 0; token < logits.size(); ++token) {
    if (std::isfinite(logits[token])) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the logit of token ", token, " is ", logits[token],
        ", not a finite number; the model's training diverged or its file is damaged"));
  }
  return absl::OkStatus();
}

// The tokens that may be drawn: in order of their ids if all are left, otherwise the most likely
// first.
std::vector<int32_t> MostLikely(absl::Span<const float> logits, const SamplingOptions& options) {
  std::vector<int32_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto likelier = [&logits](int32_t a, int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  const bool cut = options.top_k > 0 && static_cast<size_t>(options.top_k) < tokens.size();
  if (!cut && options.top_p >= 1) return tokens;
  if (cut) {
    std::nth_element(tokens.begin(), tokens.begin() + options.top_k, tokens.end(), likelier);
    tokens.resize(options.top_k);
  }
  std::sort(tokens.begin(), tokens.end(), likelier);
  return tokens;
}

}  // namespace

absl::Status ValidateSampling(const SamplingOptions& options) {
  if (!(options.temperature >= 0 && std::isfinite(options.temperature))) {
    return absl::InvalidArgumentError(absl::StrCat("temperature is ", options.temperature,
                                                   "; it must be a finite number from 0 up"));
  }
  if (options.top_k < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("top-k is ", options.top_k, "; it must be at least 1, or 0 for all tokens"));
  }
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("top-p is ", options.top_p, "; it must be above 0 and at most 1"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int32_t> SampleToken(absl::Span<const float> logits, const SamplingOptions& options,
                                    double uniform) {
  MUSTER_RETURN_IF_ERROR(CheckFinite(logits));
  const auto best = std::max_element(logits.begin(), logits.end());
  if (options.temperature == 0) return static_cast<int32_t>(best - logits.begin());
  const std::vector<int32_t> tokens = MostLikely(logits, options);
  std::vector<double> weights(tokens.size());
  double sum = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    weights[i] = std::exp((static_cast<double>(logits[tokens[i]]) - *best) / options.temperature);
    sum += weights[i];
  }
  size_t left = tokens.size();
  if (options.top_p < 1) {
    double together = 0;
    for (left = 0; left < tokens.size() && together < options.top_p * sum; ++left) {
      together += weights[left];
    }
    sum = together;
  }
  double place = uniform * sum;
  for (size_t i = 0; i < left; ++i) {
    if (place < weights[i]) return tokens[i];
    place -= weights[i];
  }
  // Rounding has let the draw pass the last one: the last that can be drawn at all.
  while (left > 1 && weights[left - 1] == 0) --left;
  return tokens[left - 1];
}

}  // namespace muster

#include "worker/generate/generator.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/philox.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

// Gives the model the tokens beyond the first `taken` of all, in its own terms if they do not fit.
class Feeder {
 public:
  explicit Feeder(NextTokenModel& model) : model_(model) {}

  absl::StatusOr<absl::Span<const float>> Feed(const std::vector<int32_t>& all) {
    absl::Span<const int32_t> fresh = absl::MakeConstSpan(all).subspan(taken_);
    if (held_ + static_cast<int64_t>(fresh.size()) > model_.context()) {
      model_.Forget();
      held_ = 0;
      const auto half = static_cast<size_t>(std::max<int64_t>(1, model_.context() / 2));
      fresh = absl::MakeConstSpan(all).last(std::min(all.size(), half));
    }
    taken_ = all.size();
    held_ += static_cast<int64_t>(fresh.size());
    return model_.Take(fresh);
  }

 private:
  NextTokenModel& model_;
  // Of all tokens, how many were given; and how many the model remembers.
  size_t taken_ = 0;
  int64_t held_ = 0;
};

// In [0, 1), of 53 random bits.
double Uniform(const Philox& random, uint64_t draw) {
  return static_cast<double>(random.Uint64(draw) >> 11) * 0x1p-53;
}

}  // namespace

absl::StatusOr<int64_t> Generate(NextTokenModel& model, const Tokenizer& tokenizer,
                                 absl::string_view prompt, const GenerateOptions& options,
                                 absl::FunctionRef<absl::Status(absl::string_view)> sink) {
  MUSTER_RETURN_IF_ERROR(ValidateSampling(options.sampling));
  if (options.max_tokens < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("max-tokens is ", options.max_tokens, "; it must be at least 0"));
  }
  const std::optional<int32_t> end = tokenizer.end_of_text();
  std::vector<int32_t> tokens = EncodeAll(tokenizer, prompt, options.start);
  if (tokens.empty()) {
    if (!end.has_value()) {
      return absl::InvalidArgumentError(
          "the prompt is empty, and the model's tokenizer has no end-of-text to begin with; give a "
          "prompt of at least one character");
    }
    tokens.push_back(*end);
  }
  int64_t made = 0;
  const Philox random(options.seed, "generate", "");
  model.Forget();
  Feeder feeder(model);
  while (made < options.max_tokens) {
    MUSTER_ASSIGN_OR_RETURN(absl::Span<const float> logits, feeder.Feed(tokens));
    // A model may have more rows than there are tokens, for speed; no text belongs to those.
    logits = logits.first(std::min<size_t>(logits.size(), tokenizer.vocabulary()));
    MUSTER_ASSIGN_OR_RETURN(const int32_t token,
                            SampleToken(logits, options.sampling, Uniform(random, made)));
    if (token == end ||
        std::find(options.ends.begin(), options.ends.end(), token) != options.ends.end())
      break;
    ++made;
    tokens.push_back(token);
    MUSTER_RETURN_IF_ERROR(sink(tokenizer.BytesOf(token)));
  }
  return made;
}

}  // namespace muster

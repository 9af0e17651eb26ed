#ifndef MUSTER_WORKER_GENERATE_GENERATOR_H_
#define MUSTER_WORKER_GENERATE_GENERATOR_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/tokenizer/tokenizer.h"
#include "worker/generate/sampling.h"

namespace muster {

// A language model that remembers the tokens it has taken in. Not thread-safe.
class NextTokenModel {
 public:
  virtual ~NextTokenModel() = default;

  // Tokens it can take in before it has to forget.
  virtual int64_t context() const = 0;

  // Takes tokens in after those before; the logits of what follows the last of them, valid until
  // the next call. REQUIRES: tokens of the vocabulary, at least one, and no more than `context` in
  // all.
  virtual absl::StatusOr<absl::Span<const float>> Take(absl::Span<const int32_t> tokens) = 0;

  // Forgets all tokens.
  virtual void Forget() = 0;
};

struct GenerateOptions {
  SamplingOptions sampling;
  int64_t max_tokens = 256;
  uint64_t seed = 0;
  // Says what stands before the prompt.
  TextStart start = TextStart::kDocument;
  // Tokens that end the text beside the tokenizer's end-of-text.
  std::vector<int32_t> ends = {};
};

// Continues a prompt, which takes the place of what the model remembers: hands `sink` the bytes of
// each new token as soon as it is chosen, until there are max_tokens or a token was chosen that
// ends the text. Returns the number of new tokens, without that one. Equal arguments give equal
// bytes: draw i is a pure function of the seed and i. An empty prompt begins with the end-of-text.
//
// When the context is full, the model goes on from the later half of it: each token then sees
// between half a context and a whole one. The same goes for a prompt that is longer.
//
// InvalidArgument: options are out of range, or the prompt is empty and the tokenizer has no
// end-of-text. Errors of the model and the sink end the generation.
absl::StatusOr<int64_t> Generate(NextTokenModel& model, const Tokenizer& tokenizer,
                                 absl::string_view prompt, const GenerateOptions& options,
                                 absl::FunctionRef<absl::Status(absl::string_view)> sink);

}  // namespace muster

#endif  // MUSTER_WORKER_GENERATE_GENERATOR_H_

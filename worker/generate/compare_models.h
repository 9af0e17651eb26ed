#ifndef MUSTER_WORKER_GENERATE_COMPARE_MODELS_H_
#define MUSTER_WORKER_GENERATE_COMPARE_MODELS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/model_files/weights.h"
#include "common/tensor/dtype.h"
#include "common/tokenizer/tokenizer.h"

namespace muster {

// A model in some file or folder.
struct StoredModel {
  std::string name;
  const Weights* weights = nullptr;
  // Null: not known.
  const Tokenizer* tokenizer = nullptr;
};

// Returns the texts whose tokens are compared: of many languages and kinds, some made to be cut in
// unusual places. 40 in all.
absl::Span<const absl::string_view> ComparedTexts();

// Returns OK if two models say the same: each compared text has the same tokens with both, and
// after some sequences of tokens both have the same logits, to the bit, where the weights of the
// second are rounded to `type` (kF32: taken as they are). One of the models is in memory at a time.
// DataLoss: they differ; names the text or sequence and both values. InvalidArgument: a model
// cannot be loaded.
absl::Status CompareModels(const StoredModel& written, const StoredModel& original, DType type);

}  // namespace muster

#endif  // MUSTER_WORKER_GENERATE_COMPARE_MODELS_H_

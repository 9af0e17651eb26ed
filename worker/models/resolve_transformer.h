#ifndef MUSTER_WORKER_MODELS_RESOLVE_TRANSFORMER_H_
#define MUSTER_WORKER_MODELS_RESOLVE_TRANSFORMER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "worker/nn/transformer/arrays/transformer_shape.h"

namespace muster {

namespace v1 {
class AdapterSpec;
class TransformerSpec;
}  // namespace v1

// The shape that a specification stands for, with its defaults filled in; `data_vocabulary` is the
// data's number of tokens, which the model's must cover. InvalidArgument names the field, its value
// and what would be right.
absl::StatusOr<TransformerShape> ResolveTransformer(const v1::TransformerSpec& spec,
                                                    int64_t data_vocabulary);

// The adapters that a specification stands for; none for an empty one. REQUIRES: a valid
// specification (ValidateParameterGroups).
AdapterShape ResolveAdapter(const v1::AdapterSpec& spec);

}  // namespace muster

#endif  // MUSTER_WORKER_MODELS_RESOLVE_TRANSFORMER_H_

#ifndef MUSTER_WORKER_NN_MODEL_PARAMETERS_H_
#define MUSTER_WORKER_NN_MODEL_PARAMETERS_H_

#include "absl/types/span.h"
#include "worker/nn/layer.h"

namespace muster {

// A model's parameters, by tensor index of its description, as whoever holds them lets a model read
// them.
struct ModelParameters {
  // In f32. Empty for a tensor of which only `rounded` is held.
  ParameterSpans values;
  // In TensorSpec::compute, if that is not f32; otherwise null.
  absl::Span<const void* const> rounded;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_MODEL_PARAMETERS_H_

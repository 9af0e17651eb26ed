#ifndef MUSTER_WORKER_NN_RESIDUAL_STREAM_H_
#define MUSTER_WORKER_NN_RESIDUAL_STREAM_H_

namespace muster {

// The residual stream between two layers of a transformer, as sum + dropout(branch), so that the
// addition is made by the next norm; or the gradients with regard to both. `branch` may be null.
// Letters as in common/compute/transformer_activations.h.
struct ResidualStream {
  const float* sum = nullptr;    // [N, C]
  const void* branch = nullptr;  // T [N, C]
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_RESIDUAL_STREAM_H_

#ifndef MUSTER_WORKER_NN_LAYER_CONTEXT_H_
#define MUSTER_WORKER_NN_LAYER_CONTEXT_H_

#include <cstdint>

namespace muster {

enum class Phase { kTraining, kEvaluation };

// What a layer may use besides its spans; passed to every call, so that there is no process-wide
// state.
struct LayerContext {
  Phase phase = Phase::kTraining;
  // For counter-based randomness (dropout).
  uint64_t seed = 0;
  uint64_t clock = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_LAYER_CONTEXT_H_

#ifndef MUSTER_WORKER_NN_TRANSFORMER_ARRAYS_ADAPTER_SHAPE_H_
#define MUSTER_WORKER_NN_TRANSFORMER_ARRAYS_ADAPTER_SHAPE_H_

#include <array>
#include <cstdint>

#include "common/job/adapter_targets.h"

namespace muster {

// A transformer's low-rank adapters (AdapterSpec), with defaults filled in.
struct AdapterShape {
  // r; 0: there are no adapters.
  int64_t rank = 0;
  // Multiplies what they add: alpha / r.
  float scale = 1;
  // The dropout of an adapter's input.
  float dropout = 0;
  // Says by AdapterTarget whether blocks have one.
  std::array<bool, kAdapterTargets> targets = {};

  bool Has(AdapterTarget target) const { return rank > 0 && targets[static_cast<int>(target)]; }
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_ARRAYS_ADAPTER_SHAPE_H_

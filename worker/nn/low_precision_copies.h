#ifndef MUSTER_WORKER_NN_LOW_PRECISION_COPIES_H_
#define MUSTER_WORKER_NN_LOW_PRECISION_COPIES_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "common/base/huge_memory.h"
#include "common/compute/ops.h"
#include "common/partition/tensor_spec.h"
#include "common/tensor/dtype.h"
#include "worker/nn/model_parameters.h"

namespace muster {

// Where copies lie and what makes them. By default both are the processor's.
struct LowPrecisionCopiesPlace {
  // Memory of LowPrecisionCopies::Bytes, aligned to 64 bytes; outlives the copies. Null: allocated
  // from the host's.
  void* memory = nullptr;
  // Returns what rounds; called each time that there is something to round. Null: processors do.
  std::function<Ops&()> ops;
};

// Copies of f32 parameters in the 16-bit types that a model computes with them in
// (TensorSpec::compute), for those who hold the parameters. A unit's copies are made right before
// the unit reads them, so that they are in the processor's caches. Memory: 2 bytes per element that
// has a copy. Not thread-safe.
class LowPrecisionCopies {
 public:
  // Copies each tensor of `held.values` that is computed with in 16 bits, unless `held.rounded`
  // has it already (an empty span has none). The arrays of `held` outlive this and do not move.
  LowPrecisionCopies(absl::Span<const TensorSpec> tensors, const ModelParameters& held,
                     LowPrecisionCopiesPlace place = {});

  // Returns the bytes of a tensor's copy, with room up to the next one's.
  static uint64_t Bytes(const TensorSpec& tensor);

  // Marks all copies as out of date: the values may change from now on.
  void Outdate();

  // Makes the copies of the unit's tensors, unless they are up to date.
  void Refresh(int unit);

  // Returns what is held, together with the copies. The spans never change.
  ModelParameters parameters() const { return {values_, rounded_}; }

 private:
  struct Copy {
    int64_t elements = 0;
    const float* values = nullptr;
    DType type = DType::kF32;
    void* rounded = nullptr;
  };
  struct Unit {
    std::vector<Copy> copies;
    bool up_to_date = false;
  };

  const std::function<Ops&()> ops_;
  const ParameterSpans values_;
  std::vector<const void*> rounded_;
  std::vector<Unit> units_;
  HugeMemory memory_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_LOW_PRECISION_COPIES_H_

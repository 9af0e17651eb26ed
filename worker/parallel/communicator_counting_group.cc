#include "worker/parallel/communicator_counting_group.h"

#include <cstddef>

#include "common/tensor/dtype.h"
#include "worker/collectives/collective_call.h"

namespace muster {

void CommunicatorCountingGroup::Sum(int64_t numbers, float* counts) {
  if (!status_.ok()) return;
  CollectiveCall call;
  call.kind = Collective::kAllReduce;
  call.dtype = DType::kF32;
  call.count = static_cast<size_t>(numbers);
  call.in = counts;
  call.out = counts;
  call.timeout = timeout_;
  call.label = "choices of experts";
  status_ = run_(communicator_, call);
}

}  // namespace muster

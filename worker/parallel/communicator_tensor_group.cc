#include "worker/parallel/communicator_tensor_group.h"

#include "worker/collectives/collective_call.h"

namespace muster {

void CommunicatorTensorGroup::Run(Collective kind, const char* label, DType type, int64_t elements,
                                  const void* in, void* out) {
  if (!status_.ok()) return;
  CollectiveCall call;
  call.kind = kind;
  call.dtype = type;
  call.count = static_cast<size_t>(elements);
  call.in = in;
  call.out = out;
  call.timeout = timeout_;
  call.label = label;
  status_ = run_(communicator_, call);
}

void CommunicatorTensorGroup::Gather(DType type, int64_t elements, const void* mine, void* all) {
  Run(Collective::kAllGather, "tensor rows", type, elements, mine, all);
}

void CommunicatorTensorGroup::ScatterSums(DType type, int64_t elements, void* all, void* mine) {
  Run(Collective::kReduceScatter, "sums of tensor rows", type, elements, all, mine);
}

void CommunicatorTensorGroup::Sum(DType type, int64_t elements, void* values) {
  Run(Collective::kAllReduce, "sum over tensor ranks", type, elements, values, values);
}

}  // namespace muster

#include "worker/parallel/communicator_tensor_group.h"

#include "worker/collectives/collective_call.h"

namespace muster {

void CommunicatorTensorGroup::Run(CollectiveCall call, DType type, int64_t elements,
                                  const char* label) {
  if (!status_.ok()) return;
  call.dtype = type;
  call.count = static_cast<size_t>(elements);
  call.timeout = timeout_;
  call.label = label;
  status_ = run_(communicator_, call);
}

void CommunicatorTensorGroup::Gather(DType type, int64_t elements, const void* mine, void* all) {
  CollectiveCall call;
  call.kind = Collective::kAllGather;
  call.in = mine;
  call.out = all;
  Run(call, type, elements, "tensor rows");
}

void CommunicatorTensorGroup::ScatterSums(DType type, int64_t elements, void* all, void* mine) {
  CollectiveCall call;
  call.kind = Collective::kReduceScatter;
  call.in = all;
  call.out = mine;
  Run(call, type, elements, "sums of tensor rows");
}

void CommunicatorTensorGroup::Sum(DType type, int64_t elements, void* values) {
  CollectiveCall call;
  call.kind = Collective::kAllReduce;
  call.in = values;
  call.out = values;
  Run(call, type, elements, "sum over tensor ranks");
}

}  // namespace muster

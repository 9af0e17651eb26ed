#ifndef MUSTER_WORKER_NN_TENSOR_GROUP_H_
#define MUSTER_WORKER_NN_TENSOR_GROUP_H_

#include "worker/nn/pass_group.h"

namespace muster {

// The ranks that divide each layer among them (tensor parallelism).
class TensorGroup : public PassGroup {};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TENSOR_GROUP_H_

#ifndef MUSTER_WORKER_PARALLEL_COMMUNICATOR_TENSOR_GROUP_H_
#define MUSTER_WORKER_PARALLEL_COMMUNICATOR_TENSOR_GROUP_H_

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/tensor/dtype.h"
#include "worker/collectives/communicator.h"
#include "worker/nn/tensor_group.h"

namespace muster {

// A tensor group whose calls a communicator makes. Used by one thread.
class CommunicatorTensorGroup final : public TensorGroup {
 public:
  // Makes a call, and perhaps measures its time. Where computations are only queued, it makes the
  // call in its place among them and reports failures there.
  using RunCall =
      std::function<absl::Status(Communicator& communicator, const CollectiveCall& call)>;

  // The communicator outlives the group, which alone uses it during a pass. Each call may take
  // `timeout`.
  CommunicatorTensorGroup(
      Communicator& communicator, absl::Duration timeout,
      RunCall run = [](Communicator& group, const CollectiveCall& call) { return group.Run(call); })
      : communicator_(communicator), timeout_(timeout), run_(std::move(run)) {}

  int size() const override { return communicator_.size(); }
  int rank() const override { return communicator_.rank(); }
  void Gather(DType type, int64_t elements, const void* mine, void* all) override;
  void ScatterSums(DType type, int64_t elements, void* all, void* mine) override;
  void Sum(DType type, int64_t elements, void* values) override;
  absl::Status status() const override { return status_; }

 private:
  void Run(Collective kind, const char* label, DType type, int64_t elements, const void* in,
           void* out);

  Communicator& communicator_;
  const absl::Duration timeout_;
  const RunCall run_;
  absl::Status status_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_PARALLEL_COMMUNICATOR_TENSOR_GROUP_H_

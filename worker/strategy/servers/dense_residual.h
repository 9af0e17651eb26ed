#ifndef MUSTER_WORKER_STRATEGY_SERVERS_DENSE_RESIDUAL_H_
#define MUSTER_WORKER_STRATEGY_SERVERS_DENSE_RESIDUAL_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/payload.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/partition/dense_layout.h"
#include "common/partition/tensor_spec.h"
#include "common/tensor/dtype.h"
#include "common/transport/shared_memory/registered_memory.h"
#include "worker/strategy/arena.h"
#include "worker/strategy/servers/dense_runs.h"

namespace muster {

// What a slot's dense pushes in half precision have rounded away so far, and the rounding: each
// push sends gradient + residual, rounded, and keeps the new error (common/tensor/half.h,
// RoundWithResidual). Over a job the slot so sends the sum of its gradients, but for one rounding
// step.
//
// The residual is state of the slot: cuts hold it (as tensors named by TensorName), and tasks that
// go on from a checkpoint read it. A job with W workers that goes on from a checkpoint of another
// number gives slot s the sum of the residuals of slots s, s + W, s + 2W, …, so nothing is lost;
// slots that the checkpoint does not know start at 0. A task that takes over a slot in
// mid-generation, after a crash, starts at 0 too: what the slot still owed, at most one rounding
// step of each element, is dropped, as the parameters it belongs to have moved on.
//
// Memory: 4 bytes per element, and 2 for each push under way. Not thread-safe.
class DenseResidual {
 public:
  // Checks that a cut can carry a residual of the layout: each partition's in one message.
  // InvalidArgument: it cannot.
  static absl::Status CheckFits(const DenseLayout& layout);

  // `type` is kBf16 or kF16. The layout must outlive it. At most `pushes` steps' pushes are under
  // way; they lie in registered memory if there is some.
  DenseResidual(const DenseLayout& layout, DType type, int pushes,
                std::shared_ptr<RegisteredMemory> registered = nullptr);

  // Makes ready for the pushes of a step. Blocks while too many are under way.
  void BeginStep() { bits_ = pool_.Acquire(); }

  // A run's gradients as the payload of its push; `flat` is the gradient arena, free for other use
  // afterwards. Once per run and step.
  Payload Round(const DenseRun& run, absl::Span<const float> flat);

  // Ends the step; what is under way keeps its memory.
  void EndStep() { bits_.reset(); }

  // Forgets what a run owes.
  void Clear(const DenseRun& run);

  // Appends the residual of all blocks of a partition to `bytes`, in order, f32.
  void Append(uint32_t partition, std::string& bytes) const;

  // Takes over what a checkpoint holds for this slot of a job with `slots` workers, as said above.
  // A checkpoint without residuals leaves 0. DataLoss: damaged.
  absl::Status Restore(const CheckpointReader& checkpoint, absl::Span<const TensorSpec> tensors,
                       uint32_t slot, uint32_t slots);

  // How checkpoints name a slot's residual of a tensor.
  static std::string TensorName(uint32_t slot, const std::string& tensor);

  absl::Span<const float> values() const { return residual_.values(); }

 private:
  const DenseLayout& layout_;
  const DType type_;
  Arena residual_;
  // Of 16-bit numbers, each where its element is in the flat space.
  ArenaPool pool_;
  std::shared_ptr<Arena> bits_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_SERVERS_DENSE_RESIDUAL_H_

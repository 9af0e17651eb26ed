#ifndef MUSTER_WORKER_DEVICE_PASSES_DEVICE_PASSES_H_
#define MUSTER_WORKER_DEVICE_PASSES_DEVICE_PASSES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/base/pass.h"
#include "common/base/work.h"
#include "common/compute/device_ops.h"
#include "common/device/device.h"
#include "common/kernels/device/matmul/device_matmul.h"
#include "common/kernels/moe/expert_arrays.h"
#include "common/plan/device/device_memory_layout.h"
#include "worker/collectives/communicator.h"
#include "worker/data/batch.h"
#include "worker/device/memory/device_batches.h"
#include "worker/device/memory/device_options.h"
#include "worker/device/passes/device_recorder.h"
#include "worker/nn/context_group.h"
#include "worker/nn/model.h"
#include "worker/nn/transformer/arrays/transformer_arrays.h"
#include "worker/nn/transformer/arrays/transformer_shape.h"

namespace muster {

// The part of a device that runs passes over a transformer's micro-batches: its stream, operations,
// graphs, and the memory of activations, of as many micro-batches at a time as there are saved
// sets. The host only queues: batches are staged in pinned memory, and sums stay on the device.
// Allocates nothing after Create. Used by one thread, whose device is open (OpenDevice).
class DevicePasses {
 public:
  // Allocates everything, as DeviceExtentsOf says. DeviceFaultError: others have taken the memory
  // meanwhile; otherwise the device's errors.
  static absl::StatusOr<std::unique_ptr<DevicePasses>> Create(const TransformerShape& shape,
                                                              const DeviceComputeOptions& options,
                                                              const DeviceExtents& extents);
  ~DevicePasses() { Stop(); }

  // Gives up what was put off, and waits for the device.
  void Stop();

  // Returns the stream. What is queued on it comes after all that passes have been called with.
  DeviceStream& stream() {
    recorder_->Queue();
    idle_ = false;
    return *stream_;
  }
  // Blocks until everything queued is done, calls included; at once if nothing was queued since the
  // last Wait.
  absl::Status Wait();

  DeviceOps& ops() { return *ops_; }
  int64_t most_examples() const { return most_.sequences; }
  // Returns whether there is memory for backward in two actions.
  bool splits_backward() const { return splits_backward_; }
  // Returns the place of the arrays of these units in DeviceActivationStash::arrays; absent: passes
  // have no memory for them.
  absl::optional<size_t> ArraysOf(const UnitRange& units) const;
  const DevicePassMemory& memory() const { return memory_; }

  // Takes the next batch, or the rank's share of it; returns its rows. Waits where it is four
  // batches ahead of the device. InvalidArgument: it does not fit the memory; says what.
  absl::StatusOr<TokenRows> Take(const TokenArrays& tokens) { return batches_->Take(tokens); }

  // Returns the numbers of the activation stashes, in turn.
  int NextSet();
  const DeviceActivationStash& set(const DeviceRecorder::Pass& pass) const {
    return memory_.sets[pass.set()];
  }

  // Begins a pass over the batch that was taken last: queues its copy to the activation stash.
  void Begin(const TokenRows& rows, const DeviceBatchRecord& record, Pass kind,
             DeviceRecorder::Pass& pass);

  // Queues the pass's next call, now or, as part of a graph, before stream() returns
  // (DeviceRecorder::Add).
  void Run(uint64_t name, DeviceRecorder::Call call, DeviceRecorder::Pass& pass) {
    recorder_->Add(name, std::move(call), pass);
  }
  // Queues the pass's next call now (DeviceRecorder::AddOnce).
  void RunOnce(const DeviceRecorder::Call& call, DeviceRecorder::Pass& pass) {
    idle_ = false;
    recorder_->AddOnce(call, pass);
  }

  // Makes a collective call, or messages that go at one time (Communicator::StartMessages), on
  // device memory in the midst of a pass's call, after the operations that this has queued and
  // before its others, each time that it is queued or launched. With a communicator of device
  // memory the host does not wait, otherwise it does. A failure goes to the stream: whatever comes
  // after does nothing. The communicator outlives the passes. REQUIRES: a pass's call is being
  // queued, or none is put off.
  void MakeCalls(Communicator& communicator, absl::Span<const CollectiveCall> calls);
  // Does `exchange` where MakeCalls would make calls, which it may do itself, and Read. Between
  // graphs it is the host's to decide, each time that the pass's call is queued or launched, what
  // it queues by ops(). It must not refer to what does not live as long as the passes.
  void Exchange(std::function<void()> exchange);
  // Copies from device memory to the host's what has been computed by then, and received by calls
  // that have ended well on all ranks. Waits for the device. REQUIRES: in an exchange.
  absl::Status Read(const void* from, size_t bytes, void* to);
  // Blocks until these calls have ended well on all ranks; until then their results count for
  // nothing. Returns the first failure.
  absl::Status AwaitCalls();

  // Returns the status of what has been queued. Does not queue what was put off.
  absl::Status status() const { return stream_->status(); }

  // Returns ComputeContext::rank_offsets for passes with this set; null without expert ranks.
  int32_t* rank_offsets(const DeviceRecorder::Pass& pass) const;

  // Returns what passes of this kind add the loss to.
  HeadSums* sums(Pass pass) const {
    return pass == Pass::kTraining ? memory_.sums : memory_.evaluation_sums;
  }
  // Queues the way of these sums, over all ranks that share out sequences (null: this alone), to
  // the host: part of the pass's call that adds to them.
  void QueueSums(Pass pass, ContextGroup* group);
  // Waits, and returns the sums over the passes of this kind since they were last taken. REQUIRES:
  // there was one.
  absl::StatusOr<HeadSums> TakeSums(Pass pass);
  // The same of the routers of training's passes: adds up what memory().router_sums and
  // memory().expert_loads have, the latter in `loads` [blocks of the model, loads_of_block]. Before
  // TakeSums, to which they belong, too. A no-op without experts.
  absl::Status AddRouters(RouterSums& sums, absl::Span<uint64_t> loads);

  // Measures which algorithm each matrix product of the largest micro-batch runs by, and loads the
  // code of its calls: `run` trains one micro-batch, which it is given. The first step then
  // captures its graphs, wherever a strategy divides them. Without a warm-up the second does, and
  // nothing is measured.
  absl::Status WarmUp(absl::FunctionRef<absl::Status(const Batch&)> run);

 private:
  explicit DevicePasses(const DeviceComputeOptions& options);

  struct Pinned;

  absl::Status UploadRotaryTable(const TransformerShape& shape);
  Pinned& pinned() const;
  // Waits for the calls that were made.
  absl::Status AwaitMade();
  // Zeroes what training's passes add up.
  void ClearSums(DeviceStream& stream);

  const TokenRows most_;
  // The tokens of a whole sequence in the largest micro-batch.
  const int64_t most_length_;
  const bool splits_backward_;
  // The units of each array of an activation stash.
  const std::vector<UnitRange> units_;
  // Elements of memory_.expert_loads.
  size_t loads_ = 0;
  // Numbers in the host's memory of what expert ranks tell one another about a micro-batch.
  size_t rank_offsets_ = 0;
  // Buffers go last: streams wait for the work queued when they go.
  DeviceBuffer buffer_;
  DeviceBuffer pinned_;
  DevicePassMemory memory_;
  std::unique_ptr<DeviceStream> stream_;
  std::unique_ptr<DeviceBatches> batches_;
  std::unique_ptr<DeviceMatmul> matmul_;
  std::unique_ptr<DeviceOps> ops_;
  std::unique_ptr<DeviceRecorder> recorder_;
  // Calls that the device makes, of which nobody has seen the end.
  std::vector<std::shared_ptr<Work>> calls_;
  // Nothing was queued since the last Wait.
  bool idle_ = false;
  int next_set_ = 0;
  // The sums of training's passes belong to no step that is to come.
  bool sums_taken_ = true;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_PASSES_DEVICE_PASSES_H_

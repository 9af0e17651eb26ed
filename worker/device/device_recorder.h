#ifndef MUSTER_WORKER_DEVICE_DEVICE_RECORDER_H_
#define MUSTER_WORKER_DEVICE_DEVICE_RECORDER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "common/compute/device_ops.h"
#include "common/device/device.h"
#include "worker/nn/residual_stream.h"
#include "worker/nn/transformer/transformer_arrays.h"

namespace muster {

// Turns the calls of a micro-batch's pass into graphs. Calls are put off until the host has
// something else to queue; those that came together are a segment. The first time a segment comes,
// its calls queue kernel by kernel, so that code is loaded then; the second time they are captured,
// and from then on one launch stands for all of them. So a segment ends exactly where a hook of a
// strategy does something, whichever strategy it is, and nobody has to know beforehand where.
//
// Graphs take device memory, and micro-batches may come in any number of extents: those after the
// first so many are queued kernel by kernel. Used by one thread.
class DeviceRecorder {
 public:
  // Queues a unit's operations. Takes what the call before it has returned. Everything that
  // changes from micro-batch to micro-batch is read from device memory.
  using Call = std::function<ResidualStream(const ResidualStream& in)>;

  // Both outlive the recorder.
  DeviceRecorder(DeviceStream& stream, const DeviceOps& ops) : stream_(stream), ops_(ops) {}

  // Begins a pass over a micro-batch of these rows, whose calls become graphs.
  // REQUIRES: no call is put off, here and in BeginUnrecorded.
  void Begin(const TokenRows& rows);
  // Begins a pass whose calls are queued at once.
  void BeginUnrecorded();

  // Takes the pass's next call. Calls of one name, in passes of the same rows, do the same.
  void Add(uint64_t name, Call call);

  // Queues the calls that were put off. A failure goes to the stream.
  void Queue();

  // Drops the calls that were put off.
  void GiveUp();

  // Destroys all graphs. REQUIRES: the stream is idle, and no call is put off.
  void Forget() { extents_.clear(); }

 private:
  struct Segment {
    // Whether products had GELU in them when the calls last ran kernel by kernel; absent: they have
    // not run.
    absl::optional<bool> ran_with_fused_gelu;
    std::unique_ptr<DeviceGraph> graph;
    // What the last call returns.
    ResidualStream out;
  };
  // By the names of the calls.
  using Segments = absl::flat_hash_map<std::vector<uint64_t>, Segment>;

  ResidualStream QueueCalls();

  DeviceStream& stream_;
  const DeviceOps& ops_;
  // By sequences and length.
  absl::flat_hash_map<std::pair<int64_t, int64_t>, Segments> extents_;
  // Of the pass; null: it is not recorded.
  Segments* segments_ = nullptr;
  std::vector<uint64_t> names_;
  std::vector<Call> calls_;
  // What the call that was queued last has returned.
  ResidualStream handed_on_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_DEVICE_RECORDER_H_

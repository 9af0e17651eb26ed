#ifndef MUSTER_WORKER_DEVICE_PASSES_DEVICE_RECORDER_H_
#define MUSTER_WORKER_DEVICE_PASSES_DEVICE_RECORDER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "common/compute/device_ops.h"
#include "common/device/device.h"
#include "worker/nn/residual_stream.h"
#include "worker/nn/transformer/arrays/transformer_arrays.h"

namespace muster {

// Turns the calls of a micro-batch's pass into graphs. Calls are put off until the host has
// something else to queue; those that came together are a segment. The first time a call comes, its
// segment is queued kernel by kernel, so that code is loaded then. A segment of calls that have all
// run so is captured, and from then on one launch stands for all of them. So a segment ends exactly
// where a hook of a strategy does something, whichever strategy it is, and nobody has to know
// beforehand where.
//
// A call may have to do something between its operations that no graph can hold, such as a
// collective call: its segment is then several graphs, with that between their launches.
//
// Passes of several micro-batches may take turns: calls that come together are of one pass, and
// each activation stash has graphs of its own.
//
// Graphs take device memory, and micro-batches may come in any number of extents: those after the
// first so many are queued kernel by kernel. Used by one thread.
class DeviceRecorder {
  struct Extents;

 public:
  // Queues a unit's operations. Takes what the call before it has returned. Everything that
  // changes from micro-batch to micro-batch is read from device memory.
  using Call = std::function<ResidualStream(const ResidualStream& in)>;

  // Both outlive the recorder.
  DeviceRecorder(DeviceStream& stream, const DeviceOps& ops) : stream_(stream), ops_(ops) {}

  // A pass over a micro-batch, from a Begin to the next. Calls that are put off keep its address.
  class Pass {
   public:
    // `set` is the number of the activation stash where the pass has its arrays.
    explicit Pass(int set) : set_(set) {}

    int set() const { return set_; }

   private:
    friend class DeviceRecorder;

    const int set_;
    // Null: the pass is not recorded.
    Extents* extents_ = nullptr;
    // What the call that was queued last has returned.
    ResidualStream handed_on_;
  };

  // Begins a pass over a micro-batch of these rows, whose calls become graphs. Queues what was put
  // off, here and in BeginUnrecorded.
  void Begin(const TokenRows& rows, Pass& pass);
  // Begins a pass whose calls are queued at once.
  void BeginUnrecorded(Pass& pass);

  // Takes the pass's next call. Calls of one name, in passes of the same rows, do the same.
  void Add(uint64_t name, Call call, Pass& pass);
  // Queues the pass's next call, which is like no other.
  void AddOnce(const Call& call, Pass& pass);

  // Does `between` after the operations that the present call has queued so far and before its
  // others, whenever the call is queued or its graphs are launched; at once if no call is queued
  // now. What it does depends on nothing but what the call's name and rows say.
  using Between = std::function<void()>;
  void DoBetween(Between between);

  // Queues the calls that were put off. A failure goes to the stream.
  void Queue();

  // Drops the calls that were put off.
  void GiveUp();

  // Destroys all graphs. REQUIRES: the stream is idle, no call is put off, and no pass goes on.
  void Forget() { extents_.clear(); }

 private:
  struct Segment {
    // Empty: the segment was not captured.
    std::vector<std::unique_ptr<DeviceGraph>> graphs;
    // What is done after each of the graphs but the last.
    std::vector<Between> between;
    // What the last call returns.
    ResidualStream out;
  };
  // The state of micro-batches that have the same rows.
  struct Extents {
    // By activation stash, segments by the names of their calls.
    std::vector<absl::flat_hash_map<std::vector<uint64_t>, Segment>> segments;
    // True if products had GELU in them when a call last ran kernel by kernel; by the call's name.
    absl::flat_hash_map<uint64_t, bool> ran_with_fused_gelu;
  };

  // Returns whether all calls that were put off have run, with the products that they use now.
  bool HaveRun() const;
  ResidualStream QueueCalls();
  absl::Status Capture(Segment& segment);
  void Launch(const Segment& segment);

  DeviceStream& stream_;
  const DeviceOps& ops_;
  // By sequences, their length, and whether tokens and those of whole sequences have positions of
  // their own.
  absl::flat_hash_map<std::tuple<int64_t, int64_t, bool, bool>, std::unique_ptr<Extents>> extents_;
  // The calls that were put off, and their pass; null: there are none.
  Pass* pass_ = nullptr;
  std::vector<uint64_t> names_;
  std::vector<Call> calls_;
  // Of the capture that is under way; null: there is none.
  std::function<void(Between)> divide_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_PASSES_DEVICE_RECORDER_H_

#ifndef MUSTER_COMMON_DEVICE_DEVICE_H_
#define MUSTER_COMMON_DEVICE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

// A device's memory and its order of work, in plain C++. Two libraries define what is declared here
// and a program links one: device_cuda (a GPU, by CUDA's runtime) and device_emulated (this
// machine's memory; see there for what it checks). What a stream runs are copies, and kernels by
// the launchers of common/kernels/device.

namespace muster {

struct DeviceProperties {
  std::string name;
  // Such as 9, 0. The emulation claims 8, 0.
  int compute_major = 0;
  int compute_minor = 0;
  int multiprocessors = 0;
  size_t memory_bytes = 0;
  // What a block can have on request.
  size_t shared_memory_per_block_optin = 0;
};

// How many devices there are. Unavailable: none, or no driver.
absl::StatusOr<int> CountDevices();

// Of a device that need not be open: to ask takes none of its memory. Unavailable: no such device,
// no driver, or a device that no kernel is compiled for; otherwise as OpenDevice.
absl::StatusOr<DeviceProperties> DevicePropertiesOf(int index);

// Makes a device the calling thread's: what is created and launched from this thread belongs to it.
// Every thread that uses the classes below calls it first. Unavailable: as DevicePropertiesOf. A
// device that fails, here or below: DeviceFaultError (device_fault.h); one for which the program
// holds no code: FailedPrecondition, at the first kernel.
absl::StatusOr<DeviceProperties> OpenDevice(int index);

class DeviceEvent;

// A queue of work that a device does in order. Calls only queue, and do not block; what is passed
// to them must live until the work is done.
//
// The first failure, of a queued call or of a kernel, is kept: later calls do nothing more, and
// status() and Synchronize() return it, so that the hundreds of launches of a step need one check.
// (A kernel's own failure shows at the first check after it ran.) Used by one thread at a time.
//
// While a graph is captured from a stream (DeviceGraph), what is queued there is recorded and not
// done.
class DeviceStream {
 public:
  // Internal, ResourceExhausted: CUDA cannot.
  static absl::StatusOr<std::unique_ptr<DeviceStream>> Create();
  // Waits for the work queued.
  ~DeviceStream();
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;

  // Host memory that is not pinned makes these two block.
  void CopyToDevice(void* to, const void* from, size_t bytes);
  void CopyToHost(void* to, const void* from, size_t bytes);
  // No overlap.
  void CopyOnDevice(void* to, const void* from, size_t bytes);
  // Every byte.
  void Fill(void* to, uint8_t value, size_t bytes);

  // The event is reached once everything queued so far is done.
  void Record(DeviceEvent& event);
  // What is queued from now on starts after the event's last Record; never recorded: at once.
  void Wait(const DeviceEvent& event);

  // Blocks until everything queued is done.
  absl::Status Synchronize();
  // Does not block.
  absl::Status status() const;

  // Notes a failure; OK is ignored.
  void Fail(absl::Status status);

  // The cudaStream_t; null in the emulation.
  void* native() const;
  // What the implementation keeps.
  struct State;
  State& state() const { return *state_; }

 private:
  explicit DeviceStream(std::unique_ptr<State> state);

  const std::unique_ptr<State> state_;
};

// A point in a stream. Used by one thread at a time.
class DeviceEvent {
 public:
  static absl::StatusOr<std::unique_ptr<DeviceEvent>> Create();
  ~DeviceEvent();
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;

  // Blocks until it is reached; at once if it was never recorded.
  absl::Status Synchronize();
  // From `start` to this one, both recorded; waits for both. FailedPrecondition: one was not.
  absl::StatusOr<double> MillisecondsSince(DeviceEvent& start);

  struct State;
  State& state() const { return *state_; }

 private:
  explicit DeviceEvent(std::unique_ptr<State> state);

  const std::unique_ptr<State> state_;
};

// Work that was recorded once and is queued as often as wanted, each time in one call: a CUDA
// graph.
class DeviceGraph {
 public:
  // Calls `body` once. It queues work on `stream`, and on streams that wait for its events and
  // whose own events it waits for before the end; none of that is done before a Launch. Every value
  // that the host passes (pointers, sizes, numbers) stays as it is at this call; what changes from
  // launch to launch is read from the device's memory, or from pinned memory by a copy.
  //
  // The body must do nothing but queue. Not allowed within are Synchronize, status() of a stream
  // that has not failed, allocating and freeing, copies from or to host memory that is not pinned,
  // another capture, and Wait for an event recorded outside; nor is it, later, to wait outside for
  // an event recorded within, until it is recorded again. Such a call fails, and so does Capture.
  // CUDA refuses what it notices, the emulation all of it.
  //   Internal  what is not allowed, or a stream's work that `stream` does not wait for
  //   others    the body's own status, or its stream's
  // `stream` can be used again, unless it is what failed.
  static absl::StatusOr<std::unique_ptr<DeviceGraph>> Capture(
      DeviceStream& stream, absl::FunctionRef<absl::Status()> body);

  // Captures several graphs, at least one, in order. With each call of its argument, which must not
  // be called later, the body ends a graph and begins the next one, so that something that cannot
  // be captured may happen between their launches. Otherwise as Capture.
  using Divide = absl::FunctionRef<void()>;
  static absl::StatusOr<std::vector<std::unique_ptr<DeviceGraph>>> CaptureParts(
      DeviceStream& stream, absl::FunctionRef<absl::Status(Divide divide)> body);
  ~DeviceGraph();
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;

  // REQUIRES: the stream it was captured from.
  void Launch(DeviceStream& stream);

  struct State;

 private:
  explicit DeviceGraph(std::unique_ptr<State> state);

  const std::unique_ptr<State> state_;
};

inline absl::StatusOr<std::unique_ptr<DeviceGraph>> DeviceGraph::Capture(
    DeviceStream& stream, absl::FunctionRef<absl::Status()> body) {
  auto graphs = CaptureParts(stream, [&body](Divide) { return body(); });
  if (!graphs.ok()) return graphs.status();
  return std::move(graphs->front());
}

// Where a DeviceBuffer's memory is.
enum class MemoryPlace {
  kDevice,
  // Of the host, pinned: copies from and to it do not block.
  kPinnedHost,
};

// Memory, aligned to 256 bytes, its contents undefined. Freeing blocks until the device is idle, so
// buffers are made before the first step and freed after the last.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  // ResourceExhausted: not so much memory. 0 bytes give an empty buffer.
  static absl::StatusOr<DeviceBuffer> Allocate(MemoryPlace place, size_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : place_(other.place_),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(place_, other.place_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  DeviceBuffer(MemoryPlace place, std::byte* data, size_t bytes)
      : place_(place), data_(data), bytes_(bytes) {}

  MemoryPlace place_ = MemoryPlace::kDevice;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

// Bytes free on the calling thread's device now.
absl::StatusOr<size_t> FreeDeviceMemory();

}  // namespace muster

#endif  // MUSTER_COMMON_DEVICE_DEVICE_H_

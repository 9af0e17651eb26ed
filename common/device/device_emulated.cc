// Devices without one: device memory is this machine's, filled with NaNs when it is allocated.
// Streams run their work as late as is allowed: when the host waits for it, or another stream does
// by an event. So where an event is missing between two streams, or a Synchronize before the host
// reads, results are wrong here every time, not now and then on a GPU.
#include <cstdlib>
#include <cstring>
#include <deque>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/device/device.h"
#include "common/device/stream_access.h"

namespace muster {
namespace {

constexpr size_t kAlignment = 256;

// The thread is within a graph's body.
thread_local bool in_graph = false;

// Work in order. Its own, so that events may outlive the stream.
struct WorkQueue {
  std::deque<std::function<void()>> waiting;
  uint64_t queued = 0;
  uint64_t done = 0;

  void Add(std::function<void()> work) {
    waiting.push_back(std::move(work));
    ++queued;
  }
  void RunUpTo(uint64_t end) {
    while (done < end) {
      const std::function<void()> work = std::move(waiting.front());
      waiting.pop_front();
      work();
      ++done;
    }
  }
};

// One Record: reached when `queue` has done so much.
struct RecordedPoint {
  std::shared_ptr<WorkQueue> queue;
  uint64_t end = 0;
  absl::Time time;
};

}  // namespace

struct DeviceStream::State {
  std::shared_ptr<WorkQueue> queue = std::make_shared<WorkQueue>();
  absl::Status status;
};

struct DeviceEvent::State {
  // Of the last Record.
  std::shared_ptr<RecordedPoint> point;
};

struct DeviceGraph::State {
  std::function<absl::Status()> body;
};

absl::StatusOr<DeviceProperties> OpenDevice(int index) {
  if (index < 0) {
    return absl::UnavailableError(
        absl::StrCat("device ", index, " does not exist: indices count from 0"));
  }
  DeviceProperties properties;
  properties.name = "emulated";
  properties.compute_major = 8;
  properties.multiprocessors = 1;
  properties.memory_bytes = size_t{1} << 36;
  properties.shared_memory_per_block_optin = size_t{163} << 10;
  return properties;
}

DeviceStream::DeviceStream(std::unique_ptr<State> state) : state_(std::move(state)) {}

DeviceStream::~DeviceStream() { state_->queue->RunUpTo(state_->queue->queued); }

absl::StatusOr<std::unique_ptr<DeviceStream>> DeviceStream::Create() {
  return std::unique_ptr<DeviceStream>(new DeviceStream(std::make_unique<State>()));
}

void DeviceStream::CopyToDevice(void* to, const void* from, size_t bytes) {
  CopyOnDevice(to, from, bytes);
}

void DeviceStream::CopyToHost(void* to, const void* from, size_t bytes) {
  CopyOnDevice(to, from, bytes);
}

void DeviceStream::CopyOnDevice(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  QueueEmulated(*this, [=] { std::memcpy(to, from, bytes); });
}

void DeviceStream::Fill(void* to, uint8_t value, size_t bytes) {
  if (bytes == 0) return;
  QueueEmulated(*this, [=] { std::memset(to, value, bytes); });
}

void DeviceStream::Record(DeviceEvent& event) {
  if (!AcceptsWork(*this)) return;
  auto point = std::make_shared<RecordedPoint>();
  point->queue = state_->queue;
  QueueEmulated(*this, [point] { point->time = absl::Now(); });
  point->end = state_->queue->queued;
  event.state().point = std::move(point);
}

void DeviceStream::Wait(const DeviceEvent& event) {
  const std::shared_ptr<RecordedPoint> point = event.state().point;
  if (point == nullptr) return;
  QueueEmulated(*this, [point] { point->queue->RunUpTo(point->end); });
}

void DeviceStream::CallHost(std::function<void()> function) {
  if (in_graph) {
    Fail(absl::FailedPreconditionError(
        "a function of the host was queued within a graph's capture; queue it outside"));
  }
  QueueEmulated(*this, std::move(function));
}

absl::Status DeviceStream::Synchronize() {
  state_->queue->RunUpTo(state_->queue->queued);
  return state_->status;
}

absl::Status DeviceStream::status() const { return state_->status; }

void DeviceStream::Fail(absl::Status status) {
  if (state_->status.ok()) state_->status = std::move(status);
}

void* DeviceStream::native() const { return nullptr; }

bool AcceptsWork(const DeviceStream& stream) { return stream.state().status.ok(); }

void QueueEmulated(DeviceStream& stream, std::function<void()> work) {
  if (AcceptsWork(stream)) stream.state().queue->Add(std::move(work));
}

DeviceEvent::DeviceEvent(std::unique_ptr<State> state) : state_(std::move(state)) {}

DeviceEvent::~DeviceEvent() = default;

absl::StatusOr<std::unique_ptr<DeviceEvent>> DeviceEvent::Create() {
  return std::unique_ptr<DeviceEvent>(new DeviceEvent(std::make_unique<State>()));
}

absl::Status DeviceEvent::Synchronize() {
  if (state_->point != nullptr) state_->point->queue->RunUpTo(state_->point->end);
  return absl::OkStatus();
}

absl::StatusOr<double> DeviceEvent::MillisecondsSince(DeviceEvent& start) {
  if (state_->point == nullptr || start.state_->point == nullptr) {
    return absl::FailedPreconditionError(
        "time between two events: one of them was never recorded; record both first");
  }
  MUSTER_RETURN_IF_ERROR(start.Synchronize());
  MUSTER_RETURN_IF_ERROR(Synchronize());
  return absl::ToDoubleMilliseconds(state_->point->time - start.state_->point->time);
}

DeviceGraph::DeviceGraph(std::unique_ptr<State> state) : state_(std::move(state)) {}

DeviceGraph::~DeviceGraph() = default;

absl::StatusOr<std::unique_ptr<DeviceGraph>> DeviceGraph::Capture(
    DeviceStream& stream, std::function<absl::Status()> body) {
  MUSTER_RETURN_IF_ERROR(stream.status());
  auto state = std::make_unique<State>();
  state->body = std::move(body);
  return std::unique_ptr<DeviceGraph>(new DeviceGraph(std::move(state)));
}

void DeviceGraph::Launch(DeviceStream& stream) {
  if (!AcceptsWork(stream)) return;
  in_graph = true;
  stream.Fail(state_->body());
  in_graph = false;
}

absl::StatusOr<DeviceBuffer> DeviceBuffer::Allocate(MemoryPlace place, size_t bytes) {
  if (bytes == 0) return DeviceBuffer();
  void* data = nullptr;
  if (posix_memalign(&data, kAlignment, bytes) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no ", bytes, " bytes of memory for an emulated device"));
  }
  std::memset(data, 0xff, bytes);
  return DeviceBuffer(place, static_cast<std::byte*>(data), bytes);
}

DeviceBuffer::~DeviceBuffer() { std::free(data_); }

absl::StatusOr<size_t> FreeDeviceMemory() { return size_t{1} << 36; }

}  // namespace muster

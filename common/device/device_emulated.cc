// Devices without one: device memory is this machine's, filled with NaNs when it is allocated.
// Streams run their work as late as is allowed: when the host waits for it, or another stream does
// by an event. So where an event is missing between two streams, or a Synchronize before the host
// reads, results are wrong here every time, not now and then on a GPU.
//
// A capture records what is queued, with its arguments by value, and does none of it. A launch of
// the graph is one piece of a stream's work, which does what was recorded; where that is of several
// streams, each again as late as its events allow. So what the host changes after the capture is
// not seen, as on a GPU, and what a capture does not allow is refused.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/base/status_macros.h"
#include "common/device/device.h"
#include "common/device/device_fault.h"
#include "common/device/emulated_device_counts.h"
#include "common/device/emulated_device_settings.h"
#include "common/device/stream_access.h"

namespace muster {
namespace {

constexpr size_t kAlignment = 256;

thread_local EmulatedDeviceCounts counts;
thread_local EmulatedDeviceSettings settings;

// The pinned memory there is: of all threads.
class PinnedMemory {
 public:
  void Add(const std::byte* begin, size_t bytes) {
    absl::MutexLock lock(&mutex_);
    blocks_[begin] = bytes;
  }
  void Remove(const std::byte* begin) {
    absl::MutexLock lock(&mutex_);
    blocks_.erase(begin);
  }
  bool Holds(const void* data, size_t bytes) {
    const auto* begin = static_cast<const std::byte*>(data);
    absl::MutexLock lock(&mutex_);
    auto block = blocks_.upper_bound(begin);
    if (block == blocks_.begin()) return false;
    --block;
    return begin + bytes <= block->first + block->second;
  }

 private:
  absl::Mutex mutex_;
  // The bytes of each block, by its beginning.
  std::map<const std::byte*, size_t> blocks_ ABSL_GUARDED_BY(mutex_);
};

PinnedMemory& Pinned() {
  static auto* const pinned = new PinnedMemory();
  return *pinned;
}

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

// The host waits until a queue has done so much.
void WaitOnHost(WorkQueue& queue, uint64_t end) {
  if (queue.done < end) ++counts.synchronizations;
  queue.RunUpTo(end);
}

// The work that a graph repeats, by stream, of which the first is the one it is captured from.
class Recording {
 public:
  using Work = std::function<void()>;

  // After so many operations of a stream.
  struct Point {
    size_t stream = 0;
    size_t end = 0;
  };

  // Returns its place.
  size_t AddStream() {
    streams_.emplace_back();
    return streams_.size() - 1;
  }
  void Add(size_t stream, Work work) { streams_[stream].push_back({std::move(work), {}}); }
  void AddWait(size_t stream, const Point& until) { streams_[stream].push_back({nullptr, until}); }
  Point EndOf(size_t stream) const { return {stream, streams_[stream].size()}; }

  // Runs everything. Other streams than the first only as far as one waits for them.
  void Run() const {
    Walk([](const Work& work) { work(); });
  }

  // Returns whether the first stream waits, in the end, for everything that others do.
  bool IsJoined() const {
    const std::vector<size_t> done = Walk([](const Work&) {});
    for (size_t stream = 0; stream < streams_.size(); ++stream) {
      if (done[stream] < streams_[stream].size()) return false;
    }
    return true;
  }

 private:
  // Work; or where there is none, a wait.
  struct Operation {
    Work work;
    Point until;
  };

  // Calls `each` in order; returns how many operations of each stream that reached.
  std::vector<size_t> Walk(absl::FunctionRef<void(const Work&)> each) const {
    std::vector<size_t> done(streams_.size());
    WalkUpTo(EndOf(0), each, done);
    return done;
  }

  void WalkUpTo(const Point& point, absl::FunctionRef<void(const Work&)> each,
                std::vector<size_t>& done) const {
    for (size_t& next = done[point.stream]; next < point.end; ++next) {
      const Operation& operation = streams_[point.stream][next];
      if (operation.work == nullptr) {
        WalkUpTo(operation.until, each, done);
      } else {
        each(operation.work);
      }
    }
  }

  std::vector<std::vector<Operation>> streams_;
};

// One Record.
struct RecordedPoint {
  // Reached when `queue` has done so much …
  std::shared_ptr<WorkQueue> queue;
  uint64_t end = 0;
  absl::Time time;
  // … or of a capture: in there.
  std::shared_ptr<const Recording> recording;
  Recording::Point within;
};

// The capture that a thread has under way.
struct CaptureUnderWay {
  const std::shared_ptr<Recording> recording = std::make_shared<Recording>();
  // In the recording's order.
  std::vector<const DeviceStream::State*> streams;
  // The first call that is not allowed.
  absl::Status refused;

  size_t Join(const DeviceStream& stream) {
    streams.push_back(&stream.state());
    return recording->AddStream();
  }
};

thread_local CaptureUnderWay* capture = nullptr;

// The stream's place in the capture, if it is in one.
absl::optional<size_t> PlaceInCapture(const DeviceStream& stream) {
  if (capture == nullptr) return absl::nullopt;
  const auto& streams = capture->streams;
  const auto found = std::find(streams.begin(), streams.end(), &stream.state());
  if (found == streams.end()) return absl::nullopt;
  return found - streams.begin();
}

// An error, and the end of the capture, if there is one.
absl::Status Refuse(absl::string_view why) {
  absl::Status refused = absl::InternalError(why);
  if (capture != nullptr) capture->refused.Update(refused);
  return refused;
}

absl::Status RefuseWithinCapture(absl::string_view what) {
  if (capture == nullptr) return absl::OkStatus();
  return Refuse(absl::StrCat(what, " within a graph's capture, which may only queue work; do it ",
                             "before or after"));
}

// Notes a copy: one that is not of pinned memory makes the host wait.
void NoteHostMemory(DeviceStream& stream, const void* host, size_t bytes) {
  if (bytes == 0 || !AcceptsWork(stream) || Pinned().Holds(host, bytes)) return;
  if (capture == nullptr) ++counts.synchronizations;
  stream.Fail(RefuseWithinCapture("a copy with host memory that is not pinned"));
}

absl::Status RefuseCapturedEvent() {
  return Refuse(
      "an event that was recorded within a graph's capture is waited for outside; record it again "
      "after the launch");
}

}  // namespace

struct DeviceStream::State {
  std::shared_ptr<WorkQueue> queue = std::make_shared<WorkQueue>();
  absl::Status status;
};

struct DeviceEvent::State {
  // The point of the last Record.
  std::shared_ptr<RecordedPoint> point;
};

struct DeviceGraph::State {
  std::shared_ptr<const Recording> recording;
};

EmulatedDeviceCounts CountsOfEmulatedDevice() { return counts; }

void SetEmulatedDevices(const EmulatedDeviceSettings& as) { settings = as; }

absl::StatusOr<int> CountDevices() { return settings.devices; }

absl::StatusOr<DeviceProperties> DevicePropertiesOf(int index) {
  if (index < 0 || index >= settings.devices) {
    return absl::UnavailableError(absl::StrCat("no device ", index, " of ", settings.devices,
                                               "; choose one from 0 to ", settings.devices - 1));
  }
  if (absl::c_linear_search(settings.failing, index)) {
    return DeviceFaultError(absl::StrCat("device ", index, " fails, as it was told to"));
  }
  DeviceProperties properties;
  properties.name = "emulated";
  properties.compute_major = 8;
  properties.multiprocessors = 1;
  properties.memory_bytes = size_t{1} << 36;
  properties.shared_memory_per_block_optin = settings.shared_memory_per_block_optin;
  return properties;
}

absl::StatusOr<DeviceProperties> OpenDevice(int index) { return DevicePropertiesOf(index); }

DeviceStream::DeviceStream(std::unique_ptr<State> state) : state_(std::move(state)) {}

DeviceStream::~DeviceStream() {
  RefuseWithinCapture("destroying a stream").IgnoreError();
  state_->queue->RunUpTo(state_->queue->queued);
}

absl::StatusOr<std::unique_ptr<DeviceStream>> DeviceStream::Create() {
  return std::unique_ptr<DeviceStream>(new DeviceStream(std::make_unique<State>()));
}

void DeviceStream::CopyToDevice(void* to, const void* from, size_t bytes) {
  NoteHostMemory(*this, from, bytes);
  CopyOnDevice(to, from, bytes);
}

void DeviceStream::CopyToHost(void* to, const void* from, size_t bytes) {
  NoteHostMemory(*this, to, bytes);
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
  if (const absl::optional<size_t> place = PlaceInCapture(*this); place.has_value()) {
    point->recording = capture->recording;
    point->within = capture->recording->EndOf(*place);
  } else {
    point->queue = state_->queue;
    state_->queue->Add([point] { point->time = absl::Now(); });
    point->end = state_->queue->queued;
  }
  event.state().point = std::move(point);
}

void DeviceStream::Wait(const DeviceEvent& event) {
  const std::shared_ptr<RecordedPoint> point = event.state().point;
  if (point == nullptr || !AcceptsWork(*this)) return;
  absl::optional<size_t> place = PlaceInCapture(*this);
  if (point->recording == nullptr) {
    if (place.has_value()) {
      Fail(RefuseWithinCapture("waiting for an event that was recorded outside"));
    } else {
      state_->queue->Add([point] { point->queue->RunUpTo(point->end); });
    }
  } else if (capture == nullptr || point->recording != capture->recording) {
    Fail(RefuseCapturedEvent());
  } else {
    if (!place.has_value()) place = capture->Join(*this);
    capture->recording->AddWait(*place, point->within);
  }
}

absl::Status DeviceStream::Synchronize() {
  if (capture == nullptr) {
    WaitOnHost(*state_->queue, state_->queue->queued);
  } else {
    Fail(RefuseWithinCapture("waiting for a stream"));
  }
  return state_->status;
}

absl::Status DeviceStream::status() const {
  if (!state_->status.ok() || !PlaceInCapture(*this).has_value()) return state_->status;
  return RefuseWithinCapture("asking for a stream's status");
}

void DeviceStream::Fail(absl::Status status) {
  if (state_->status.ok()) state_->status = std::move(status);
}

void* DeviceStream::native() const { return nullptr; }

bool AcceptsWork(const DeviceStream& stream) { return stream.state().status.ok(); }

void QueueEmulated(DeviceStream& stream, std::function<void()> work) {
  if (!AcceptsWork(stream)) return;
  if (const absl::optional<size_t> place = PlaceInCapture(stream); place.has_value()) {
    capture->recording->Add(*place, std::move(work));
  } else {
    stream.state().queue->Add(std::move(work));
  }
}

DeviceEvent::DeviceEvent(std::unique_ptr<State> state) : state_(std::move(state)) {}

DeviceEvent::~DeviceEvent() = default;

absl::StatusOr<std::unique_ptr<DeviceEvent>> DeviceEvent::Create() {
  return std::unique_ptr<DeviceEvent>(new DeviceEvent(std::make_unique<State>()));
}

absl::Status DeviceEvent::Synchronize() {
  MUSTER_RETURN_IF_ERROR(RefuseWithinCapture("waiting for an event"));
  const RecordedPoint* const point = state_->point.get();
  if (point == nullptr) return absl::OkStatus();
  if (point->recording != nullptr) return RefuseCapturedEvent();
  WaitOnHost(*point->queue, point->end);
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

absl::StatusOr<std::vector<std::unique_ptr<DeviceGraph>>> DeviceGraph::CaptureParts(
    DeviceStream& stream, absl::FunctionRef<absl::Status(Divide divide)> body) {
  MUSTER_RETURN_IF_ERROR(RefuseWithinCapture("another capture"));
  MUSTER_RETURN_IF_ERROR(stream.status());
  std::vector<std::unique_ptr<DeviceGraph>> graphs;
  absl::Status failed;
  absl::optional<CaptureUnderWay> under_way;
  const auto begin = [&] {
    under_way.emplace();
    under_way->Join(stream);
    capture = &*under_way;
  };
  const auto end = [&] {
    capture = nullptr;
    failed.Update(stream.status());
    failed.Update(under_way->refused);
    if (!under_way->recording->IsJoined()) {
      failed.Update(absl::InternalError(
          "a graph's capture ended with work of a stream that the one it was captured from does "
          "not wait for; record an event after that work and wait for it"));
    }
    if (!failed.ok()) return;
    ++counts.captures;
    auto state = std::make_unique<State>();
    state->recording = under_way->recording;
    graphs.push_back(std::unique_ptr<DeviceGraph>(new DeviceGraph(std::move(state))));
  };
  begin();
  const absl::Status queued = body([&] {
    end();
    begin();
  });
  end();
  MUSTER_RETURN_IF_ERROR(queued);
  MUSTER_RETURN_IF_ERROR(failed);
  return graphs;
}

void DeviceGraph::Launch(DeviceStream& stream) {
  if (!AcceptsWork(stream)) return;
  ++counts.launches;
  QueueEmulated(stream, [recording = state_->recording] { recording->Run(); });
}

absl::StatusOr<DeviceBuffer> DeviceBuffer::Allocate(MemoryPlace place, size_t bytes) {
  if (bytes == 0) return DeviceBuffer();
  MUSTER_RETURN_IF_ERROR(RefuseWithinCapture("allocating memory"));
  void* data = nullptr;
  if (posix_memalign(&data, kAlignment, bytes) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no ", bytes, " bytes of memory for an emulated device"));
  }
  std::memset(data, 0xff, bytes);
  ++counts.allocations;
  DeviceBuffer buffer(place, static_cast<std::byte*>(data), bytes);
  if (place == MemoryPlace::kPinnedHost) Pinned().Add(buffer.data(), bytes);
  return buffer;
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ == nullptr) return;
  RefuseWithinCapture("freeing memory").IgnoreError();
  if (place_ == MemoryPlace::kPinnedHost) Pinned().Remove(data_);
  std::free(data_);
}

absl::StatusOr<size_t> FreeDeviceMemory() { return size_t{1} << 36; }

}  // namespace muster

#include "common/transport/data_channel/io_loop.h"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "absl/synchronization/notification.h"
#include "common/transport/system_error.h"

namespace muster {
namespace {

constexpr int kMaxEvents = 64;
// Turns of the loop with work in rings between two looks at the descriptors.
constexpr int kTurnsPerEpoll = 16;
// Longest time that a look keeps the processor before it yields.
constexpr int64_t kKeepNs = 2'000;

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

absl::StatusOr<std::unique_ptr<IoLoop>> IoLoop::Create(IoLoopOptions options) {
  Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return SystemError("epoll_create1");
  Descriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return SystemError("eventfd");
  epoll_event event = {};
  event.events = EPOLLIN | EPOLLET;
  event.data.ptr = nullptr;
  if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &event) != 0) {
    return SystemError("epoll_ctl");
  }
  return std::unique_ptr<IoLoop>(new IoLoop(options, std::move(epoll), std::move(wake)));
}

IoLoop::IoLoop(IoLoopOptions options, Descriptor epoll, Descriptor wake)
    : options_(options),
      epoll_(std::move(epoll)),
      wake_(std::move(wake)),
      look_ns_(options.max_look_ns / 4),
      thread_([this] { Run(); }) {}

IoLoop::~IoLoop() {
  Post([this] { stopping_.store(true); });
  thread_.join();
}

void IoLoop::Post(std::function<void()> task) {
  {
    absl::MutexLock lock(&mutex_);
    tasks_.push_back(std::move(task));
  }
  has_tasks_.store(true, std::memory_order_seq_cst);
  if (asleep_.load(std::memory_order_seq_cst)) eventfd_write(wake_.get(), 1);
}

void IoLoop::Drain() {
  if (OnThread()) return;
  absl::Notification ran;
  Post([&ran] { ran.Notify(); });
  ran.WaitForNotification();
}

absl::Status IoLoop::Watch(int descriptor, uint32_t events, Source* source) {
  epoll_event event = {};
  event.events = events | EPOLLET;
  event.data.ptr = source;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) {
    return SystemError("epoll_ctl");
  }
  return absl::OkStatus();
}

void IoLoop::Unwatch(int descriptor, Source* source) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
  std::replace(ready_.begin(), ready_.end(), source, static_cast<Source*>(nullptr));
}

void IoLoop::AddPolled(Source* source) { polled_.push_back(source); }

void IoLoop::RemovePolled(Source* source) {
  // The list may be in iteration right now.
  std::replace(polled_.begin(), polled_.end(), source, static_cast<Source*>(nullptr));
}

bool IoLoop::RunTasks() {
  if (!has_tasks_.exchange(false, std::memory_order_seq_cst)) return false;
  std::vector<std::function<void()>> tasks;
  {
    absl::MutexLock lock(&mutex_);
    tasks.swap(tasks_);
  }
  for (std::function<void()>& task : tasks) {
    task();
    // Destroying what the task holds may post in turn, or take time.
    task = nullptr;
  }
  return !tasks.empty();
}

bool IoLoop::PollSources() {
  bool worked = false;
  bool removed = false;
  for (size_t i = 0; i < polled_.size(); ++i) {
    if (polled_[i] != nullptr) worked |= polled_[i]->Poll();
    removed |= polled_[i] == nullptr;
  }
  if (removed) polled_.erase(std::remove(polled_.begin(), polled_.end(), nullptr), polled_.end());
  return worked;
}

int IoLoop::ServeDescriptors(int timeout_ms) {
  std::array<epoll_event, kMaxEvents> events;
  const int count = epoll_wait(epoll_.get(), events.data(), kMaxEvents, timeout_ms);
  if (timeout_ms != 0) {
    asleep_.store(false, std::memory_order_seq_cst);
    for (Source* source : polled_) {
      if (source != nullptr) source->AfterSleep();
    }
  }
  if (count <= 0) return 0;
  ready_.clear();
  for (int i = 0; i < count; ++i) ready_.push_back(static_cast<Source*>(events[i].data.ptr));
  for (int i = 0; i < count; ++i) {
    // Null: the loop's own wake-up, or a source that was taken back.
    if (ready_[i] != nullptr) ready_[i]->OnEvents(events[i].events);
  }
  ready_.clear();
  return count;
}

bool IoLoop::Look() {
  if (look_ns_ <= 0) return false;
  const int64_t start = NowNs();
  for (int turn = 1;; ++turn) {
    if (has_tasks_.load(std::memory_order_relaxed)) return true;
    if (!polled_.empty() && PollSources()) return true;
    // Each look at sockets is a system call, which serves as a pause.
    if (polled_.empty() || turn % 32 == 0) {
      if (ServeDescriptors(0) > 0) return true;
    } else {
      Pause();
      if (turn % 8 != 0) continue;
    }
    const int64_t passed = NowNs() - start;
    if (passed >= look_ns_) return false;
    if (passed >= kKeepNs) sched_yield();
  }
}

void IoLoop::Sleep() {
  asleep_.store(true, std::memory_order_seq_cst);
  bool idle = !has_tasks_.load(std::memory_order_seq_cst);
  for (size_t i = 0; i < polled_.size(); ++i) {
    if (polled_[i] != nullptr) idle &= polled_[i]->BeforeSleep();
  }
  if (idle) {
    ServeDescriptors(-1);
    return;
  }
  asleep_.store(false, std::memory_order_seq_cst);
  for (Source* source : polled_) {
    if (source != nullptr) source->AfterSleep();
  }
}

void IoLoop::Run() {
  int turns = 0;
  while (!stopping_.load(std::memory_order_relaxed)) {
    bool worked = RunTasks();
    worked |= PollSources();
    if (worked) {
      if (++turns % kTurnsPerEpoll == 0 || polled_.empty()) ServeDescriptors(0);
      continue;
    }
    if (ServeDescriptors(0) > 0) continue;
    const int64_t start = NowNs();
    if (Look()) {
      look_ns_ = std::min(options_.max_look_ns, look_ns_ + look_ns_ / 8);
      continue;
    }
    Sleep();
    // A longer look would have spared a short sleep; after a long one a shorter look will do.
    if (NowNs() - start < options_.max_look_ns) {
      look_ns_ = std::min(options_.max_look_ns, look_ns_ * 2);
    } else {
      look_ns_ = std::max(options_.max_look_ns / 32, look_ns_ - look_ns_ / 4);
    }
  }
  RunTasks();
}

}  // namespace muster

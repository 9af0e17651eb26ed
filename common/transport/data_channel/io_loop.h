#ifndef MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_IO_LOOP_H_
#define MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_IO_LOOP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/transport/descriptor.h"

namespace muster {

struct IoLoopOptions {
  // Longest time to look for work before going to sleep, in nanoseconds. The actual time adapts: a
  // look that finds work, or would have within this time, makes the next one longer; any other look
  // shorter, down to 1/32 of this. 0: never looks.
  int64_t max_look_ns = 50'000;
};

// One thread that serves many connections: sockets by epoll, rings in shared memory by polling.
// While there is work it does not sleep. Otherwise it looks for work for a short while, yielding
// the processor to others, and then sleeps, having asked the rings' other ends to wake it.
class IoLoop {
 public:
  // A connection that the loop serves. All calls come from the loop's thread, one at a time.
  class Source {
   public:
    virtual ~Source() = default;
    // Handles epoll's events of a watched descriptor.
    virtual void OnEvents(uint32_t events) = 0;
    // Looks for work, does some of it, and returns whether there was any. Polled sources only.
    virtual bool Poll() = 0;
    // Prepares for the loop's sleep, which lasts until a watched descriptor is ready: whoever
    // brings work from now on has to make one ready. Returns false if there is work already.
    virtual bool BeforeSleep() = 0;
    virtual void AfterSleep() = 0;
  };

  // Starts the thread. Unavailable: the system has no more descriptors.
  static absl::StatusOr<std::unique_ptr<IoLoop>> Create(IoLoopOptions options = {});
  // Runs the posted tasks, then joins. REQUIRES: no source is left; not on the loop's thread.
  ~IoLoop();

  // Runs `task` on the loop's thread, soon and in order; never within the call. Any thread.
  void Post(std::function<void()> task) ABSL_LOCKS_EXCLUDED(mutex_);
  // Blocks until all tasks posted before have run; returns at once on the loop's own thread.
  void Drain();
  bool OnThread() const { return std::this_thread::get_id() == thread_.get_id(); }

  // The next four run on the loop's thread only. A source takes back all it has registered before
  // it is destroyed; from then on it is not called.
  //
  // Events are edge-triggered (EPOLLET): the source goes on until there is nothing more.
  absl::Status Watch(int descriptor, uint32_t events, Source* source);
  void Unwatch(int descriptor, Source* source);
  void AddPolled(Source* source);
  void RemovePolled(Source* source);

 private:
  IoLoop(IoLoopOptions options, Descriptor epoll, Descriptor wake);

  void Run();
  // Returns whether there were any.
  bool RunTasks();
  bool PollSources();
  // Waits for descriptors for `timeout_ms`, serves those that are ready, and returns their number.
  int ServeDescriptors(int timeout_ms);
  // Returns whether work came up.
  bool Look();
  void Sleep();

  const IoLoopOptions options_;
  const Descriptor epoll_;
  const Descriptor wake_;

  std::atomic<bool> asleep_{false};
  std::atomic<bool> has_tasks_{false};
  std::atomic<bool> stopping_{false};

  absl::Mutex mutex_;
  std::vector<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);

  // The loop's thread only.
  std::vector<Source*> polled_;
  // Sources of the descriptors that are being served. A source that is taken back is nulled here.
  std::vector<Source*> ready_;
  int64_t look_ns_;

  // Last: it uses all of the above.
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_IO_LOOP_H_

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
  // Longest time to look for work before going to sleep, in nanoseconds. What is looked for in
  // fact adapts: a look that is rewarded makes the next one longer, one in vain shorter, down to
  // 1/32 of this. 0: never looks.
  int64_t max_look_ns = 50'000;
};

// One thread that serves many connections: sockets by epoll, rings in shared memory by looking at
// them. While it finds work it does not sleep; then it looks for a short while, offering the
// processor to others; then it sleeps, having told the rings' other ends to wake it.
class IoLoop {
 public:
  // What the loop drives. All calls come from its thread, one at a time.
  class Source {
   public:
    virtual ~Source() = default;
    // A watched descriptor is ready: epoll's events.
    virtual void OnEvents(uint32_t events) = 0;
    // Of polled sources only. Looks for work and does some of it; whether there was any.
    virtual bool Poll() = 0;
    // The loop is about to sleep until a watched descriptor is ready: whoever brings work from now
    // on has to make one so. False: there is work already.
    virtual bool BeforeSleep() = 0;
    virtual void AfterSleep() = 0;
  };

  // Unavailable: the system has no more descriptors.
  static absl::StatusOr<std::unique_ptr<IoLoop>> Create(IoLoopOptions options = {});
  // Runs the tasks that are there, then joins. REQUIRES: no source is left; not on the loop's
  // thread.
  ~IoLoop();

  // Runs `task` on the loop's thread, soon and in order; never within the call. Any thread.
  void Post(std::function<void()> task) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns once all tasks posted before have run; on the loop's own thread at once.
  void Drain();
  bool OnThread() const { return std::this_thread::get_id() == thread_.get_id(); }

  // These four on the loop's thread only. A source takes back all it has registered before it goes;
  // from then on it is not called.
  //
  // Events come at every change (EPOLLET): the source goes on until there is nothing more.
  absl::Status Watch(int descriptor, uint32_t events, Source* source);
  void Unwatch(int descriptor, Source* source);
  void AddPolled(Source* source);
  void RemovePolled(Source* source);

 private:
  IoLoop(IoLoopOptions options, Descriptor epoll, Descriptor wake);

  void Run();
  // Whether there were any.
  bool RunTasks();
  bool PollSources();
  // Waits for descriptors for `timeout_ms`, and serves those that are ready; how many.
  int ServeDescriptors(int timeout_ms);
  // Whether work came up.
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
  // Of the descriptors that are being served: a source that is taken back is nulled here.
  std::vector<Source*> ready_;
  int64_t look_ns_;

  // Last: it uses all of the above.
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_IO_LOOP_H_

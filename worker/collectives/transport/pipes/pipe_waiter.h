#ifndef MUSTER_WORKER_COLLECTIVES_TRANSPORT_PIPES_PIPE_WAITER_H_
#define MUSTER_WORKER_COLLECTIVES_TRANSPORT_PIPES_PIPE_WAITER_H_

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "worker/collectives/transport/pipes/doorbell.h"
#include "worker/collectives/transport/pipes/group_health.h"
#include "worker/collectives/transport/pipes/host_pipe.h"
#include "worker/collectives/transport/transport.h"

namespace muster {

// Makes a rank wait for its pipes: looks at them for a short while, then sleeps until a peer rings,
// a socket is ready, or the group fails. One thread at a time.
//
// Looking pays if the peer runs at the same time. With at least as many processors as ranks here,
// the time for looking adapts: up to 100 us while looking succeeds, down to 2 us while it does not.
// After the first microsecond or two, every look offers the processor to other threads. With more
// ranks than processors, every look does so from the start.
//
// The kernel may put two ranks on one processor while there are enough. They would go on taking
// turns, as both always want to run: one of them then sleeps once, and is woken on an idle one.
//
// A rank that waits for rings and sockets together sleeps in poll, and asks the peers with rings to
// write to the eventfd of its doorbell.
class PipeWaiter {
 public:
  struct Options {
    // Pipes by rank; null for this rank.
    std::vector<HostPipe*> pipes;
    // Names of the ranks in errors, by rank.
    std::vector<std::string> names;
    // Number of the group's ranks on this machine, this one included.
    int local_ranks = 1;
    int processors = 1;
  };

  // `bell` and `health` must outlive this.
  PipeWaiter(Options options, Doorbell& bell, GroupHealth& health);

  // Implements Transport::Wait.
  void Wait(uint64_t ticket, absl::Span<const PipeInterest> interests, absl::Duration timeout);

  // Implements Transport::Wake. Any thread may call it.
  void Wake();

 private:
  // Returns true if there is a reason not to sleep.
  bool Moved(uint32_t word, absl::Span<const PipeInterest> interests) const;
  // Returns true if a peer that is waited for runs on this processor while there are enough for
  // all. Looking would keep the peer from running, and the two could take turns for long.
  bool SharesProcessor(absl::Span<const PipeInterest> interests);
  // Returns true if something moved before the time for looking was over.
  bool Look(uint32_t word, absl::Span<const PipeInterest> interests, int64_t limit_ns);
  // Fails the group if a peer that is waited for will never send again.
  void CheckPeers(absl::Span<const PipeInterest> interests, absl::Duration timeout);
  void FallAsleep(uint32_t word, absl::Span<const PipeInterest> interests, absl::Duration timeout);
  // Fills polled_ with the eventfd and the sockets among `interests`.
  void ListSockets(absl::Span<const PipeInterest> interests);

  const Options options_;
  const bool crowded_;
  Doorbell& bell_;
  GroupHealth& health_;
  int64_t look_ns_;
  // Time when this rank last slept because it shared a processor.
  int64_t made_way_ns_ = 0;
  // Monotonic time when each peer's connection was first seen broken.
  std::vector<absl::Duration> broken_since_;
  std::vector<pollfd> polled_;
  // Kind of sleep that the waiting thread is in, or about to begin.
  std::atomic<Sleep> asleep_ = Sleep::kNone;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_TRANSPORT_PIPES_PIPE_WAITER_H_

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

// How a rank waits for its pipes: it looks for a short while, then sleeps until a peer rings, a
// socket is ready, or the group fails. One thread at a time.
//
// Looking is worth it where the peer runs at the same time. Where there are as many processors as
// ranks here, it looks for a time that adapts: up to 100 us while that is rewarded, down to 2 us
// while it is not; after the first microsecond or two it offers the processor to other threads at
// every look. Where there are more ranks than processors, it gives the processor away from the
// first look on.
//
// Two ranks that the kernel has put on one processor, while there are enough, would go on taking
// turns there, as both always want to run: one of them then sleeps once, and is woken on a
// processor that is idle.
//
// Rings and sockets together: it sleeps in poll, and asks the peers with rings to write to the
// eventfd of its doorbell.
class PipeWaiter {
 public:
  struct Options {
    // By rank; null for this rank.
    std::vector<HostPipe*> pipes;
    // What errors call the ranks, by rank.
    std::vector<std::string> names;
    // Ranks of this group on this machine, this one included.
    int local_ranks = 1;
    int processors = 1;
  };

  // `bell` and `health` must outlive this.
  PipeWaiter(Options options, Doorbell& bell, GroupHealth& health);

  // As Transport::Wait.
  void Wait(uint64_t ticket, absl::Span<const PipeInterest> interests, absl::Duration timeout);

  // As Transport::Wake. Any thread.
  void Wake();

 private:
  // Whether there is a reason not to sleep.
  bool Moved(uint32_t word, absl::Span<const PipeInterest> interests) const;
  // Whether a peer that is waited for runs on this processor while there are enough for all:
  // looking then keeps it from running, and the two could take turns for long.
  bool SharesProcessor(absl::Span<const PipeInterest> interests);
  // Whether something moved before the time for looking was over.
  bool Look(uint32_t word, absl::Span<const PipeInterest> interests, int64_t limit_ns);
  // A peer that is waited for and will never send again fails the group.
  void CheckPeers(absl::Span<const PipeInterest> interests, absl::Duration timeout);
  void FallAsleep(uint32_t word, absl::Span<const PipeInterest> interests, absl::Duration timeout);
  // Fills polled_ with the eventfd and the sockets among `interests`.
  void ListSockets(absl::Span<const PipeInterest> interests);

  const Options options_;
  const bool crowded_;
  Doorbell& bell_;
  GroupHealth& health_;
  int64_t look_ns_;
  // When this rank last went to sleep because it shared a processor.
  int64_t made_way_ns_ = 0;
  // When each peer's connection was first seen broken.
  // On the monotonic clock.
  std::vector<absl::Duration> broken_since_;
  std::vector<pollfd> polled_;
  // How the waiting thread sleeps, or is about to.
  std::atomic<Sleep> asleep_ = Sleep::kNone;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_TRANSPORT_PIPES_PIPE_WAITER_H_

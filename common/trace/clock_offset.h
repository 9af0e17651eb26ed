#ifndef MUSTER_COMMON_TRACE_CLOCK_OFFSET_H_
#define MUSTER_COMMON_TRACE_CLOCK_OFFSET_H_

#include <cstdint>

namespace muster {

// Estimates how far another process's clock is ahead of this one's, from requests that the other
// answers with its time. The answer's time lies between sending and receiving, so taking the middle
// is wrong by half of the round trip at most. The best estimate is kept; an old one counts as worse
// by what the clocks may have drifted since, 100 ns a millisecond.
//
//   sent 100, answered 5130, received 140: the other is ahead by 5130 - 120 = 5010, give or take 20
class ClockOffset {
 public:
  // Takes a round trip; times in nanoseconds. REQUIRES: received_ns >= sent_ns, and not before that
  // of an earlier call.
  void Add(int64_t sent_ns, int64_t answered_ns, int64_t received_ns);

  // Returns whether there was a round trip.
  bool known() const { return known_; }
  // Returns what is to be added to a time of this clock.
  int64_t offset_ns() const { return offset_ns_; }
  // Returns the most that the offset is wrong by, as of the last round trip.
  int64_t error_ns() const { return error_ns_; }

 private:
  bool known_ = false;
  int64_t offset_ns_ = 0;
  int64_t error_ns_ = 0;
  int64_t last_ns_ = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRACE_CLOCK_OFFSET_H_

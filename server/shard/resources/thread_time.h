#ifndef MUSTER_SERVER_SHARD_RESOURCES_THREAD_TIME_H_
#define MUSTER_SERVER_SHARD_RESOURCES_THREAD_TIME_H_

#include <ctime>

#include "absl/time/time.h"

namespace muster {

// Returns the processor time that the calling thread has taken.
inline absl::Duration ThreadProcessorTime() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return absl::DurationFromTimespec(now);
}

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_RESOURCES_THREAD_TIME_H_

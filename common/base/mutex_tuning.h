#ifndef MUSTER_COMMON_BASE_MUTEX_TUNING_H_
#define MUSTER_COMMON_BASE_MUTEX_TUNING_H_

namespace muster {

// Turns off Abseil's search for deadlocks, which Debian's build makes at every lock of a mutex: a
// quarter of a microsecond each, under one lock for the whole process. Tests keep it. Call at the
// start of main.
void SkipDeadlockDetection();

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_MUTEX_TUNING_H_

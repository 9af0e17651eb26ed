#ifndef MUSTER_COMMON_BASE_MUTEX_TUNING_H_
#define MUSTER_COMMON_BASE_MUTEX_TUNING_H_

namespace muster {

// Turns off Abseil's search for deadlocks. Debian's build runs the search at every lock of a mutex,
// which costs a quarter of a microsecond each, under one lock for the whole process. Tests keep the
// search. Call this at the start of main.
void SkipDeadlockDetection();

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_MUTEX_TUNING_H_

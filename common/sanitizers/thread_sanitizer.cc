// Teaches ThreadSanitizer about Debian's Abseil, which was compiled without it.
//
// Abseil's locks order memory with atomics that an uninstrumented library hides, so every use of
// absl::Mutex would look like a race. This file stands in front of the library's functions (the
// executable's definitions come first in the dynamic linker's order), calls them, and tells the
// sanitizer what each of them orders. It is part of every test's main and compiles to nothing in
// other builds.
#if defined(__SANITIZE_THREAD__)

#include <dlfcn.h>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);

// Reports inside these libraries, or about memory that they hand between their own threads, say
// nothing about Muster: they were compiled without the sanitizer, so their atomics do not count.
const char* __tsan_default_suppressions() {
  return
      // Completion queues and the event engine hand calls between threads through atomics.
      "race:libgrpc.so\n"
      "race:libgrpc++.so\n"
      "race:libgpr.so\n"
      // gRPC's own errors are absl::Status objects that its threads share: counted by atomics.
      "race:libabsl_status.so\n"
      "race:libabsl_cord.so\n"
      "race:absl::debian3::Status::UnrefNonInlined\n"
      "race:absl::debian3::inlined_vector_internal::Storage<absl::debian3::status_internal::"
      "Payload\n"
      "race:libupb.so\n"
      // Abseil's own deadlock detector, when locks are destroyed.
      "race:libabsl_graphcycles_internal.so\n"
      "called_from_lib:libgrpc.so\n"
      // gRPC's threads hand connections under TLS to one another through those atomics. (The
      // tests of our own channels are clean without this, too.)
      "race:libssl.so\n"
      "race:libcrypto.so\n"
      // Write groups, super versions and the background pools order memory by atomics.
      "race:librocksdb.so\n"
      "called_from_lib:librocksdb.so\n"
      "race:rocksdb::\n"
      // Lazily built descriptors.
      "race:libprotobuf.so\n"
      // Its worker threads and barriers are libgomp's.
      "race:libdnnl.so\n"
      "race:libgomp.so\n";
}
}

namespace absl {
inline namespace debian3 {
namespace {

template <typename Function>
Function Next(const char* mangled_name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, mangled_name));
}

// While the library unlocks, it may evaluate the conditions that other threads wait for: reads
// under a lock that the sanitizer believes released.
class ConditionsAreEvaluated {
 public:
  ConditionsAreEvaluated() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }
  ~ConditionsAreEvaluated() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
};

}  // namespace

void Mutex::Lock() {
  static const auto next = Next<void (*)(Mutex*)>("_ZN4absl7debian35Mutex4LockEv");
  next(this);
  __tsan_acquire(this);
}

void Mutex::Unlock() {
  static const auto next = Next<void (*)(Mutex*)>("_ZN4absl7debian35Mutex6UnlockEv");
  __tsan_release(this);
  const ConditionsAreEvaluated ignore;
  next(this);
}

bool Mutex::TryLock() {
  static const auto next = Next<bool (*)(Mutex*)>("_ZN4absl7debian35Mutex7TryLockEv");
  const bool locked = next(this);
  if (locked) __tsan_acquire(this);
  return locked;
}

void Mutex::ReaderLock() {
  static const auto next = Next<void (*)(Mutex*)>("_ZN4absl7debian35Mutex10ReaderLockEv");
  next(this);
  __tsan_acquire(this);
}

void Mutex::ReaderUnlock() {
  static const auto next = Next<void (*)(Mutex*)>("_ZN4absl7debian35Mutex12ReaderUnlockEv");
  __tsan_release(this);
  const ConditionsAreEvaluated ignore;
  next(this);
}

void Mutex::Await(const Condition& condition) {
  static const auto next =
      Next<void (*)(Mutex*, const Condition&)>("_ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE");
  __tsan_release(this);
  {
    const ConditionsAreEvaluated ignore;
    next(this, condition);
  }
  __tsan_acquire(this);
}

bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  static const auto next = Next<bool (*)(Mutex*, const Condition&, Duration)>(
      "_ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE");
  __tsan_release(this);
  bool reached;
  {
    const ConditionsAreEvaluated ignore;
    reached = next(this, condition, timeout);
  }
  __tsan_acquire(this);
  return reached;
}

bool Mutex::AwaitWithDeadline(const Condition& condition, Time deadline) {
  static const auto next = Next<bool (*)(Mutex*, const Condition&, Time)>(
      "_ZN4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  __tsan_release(this);
  bool reached;
  {
    const ConditionsAreEvaluated ignore;
    reached = next(this, condition, deadline);
  }
  __tsan_acquire(this);
  return reached;
}

void Mutex::LockWhen(const Condition& condition) {
  static const auto next =
      Next<void (*)(Mutex*, const Condition&)>("_ZN4absl7debian35Mutex8LockWhenERKNS0_9ConditionE");
  {
    const ConditionsAreEvaluated ignore;
    next(this, condition);
  }
  __tsan_acquire(this);
}

bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  static const auto next = Next<bool (*)(CondVar*, Mutex*, Duration)>(
      "_ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE");
  __tsan_release(mutex);
  const bool timed_out = next(this, mutex, timeout);
  __tsan_acquire(mutex);
  return timed_out;
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  static const auto next = Next<bool (*)(CondVar*, Mutex*, Time)>(
      "_ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE");
  __tsan_release(mutex);
  const bool timed_out = next(this, mutex, deadline);
  __tsan_acquire(mutex);
  return timed_out;
}

void CondVar::Wait(Mutex* mutex) {
  static const auto next =
      Next<void (*)(CondVar*, Mutex*)>("_ZN4absl7debian37CondVar4WaitEPNS0_5MutexE");
  __tsan_release(mutex);
  next(this, mutex);
  __tsan_acquire(mutex);
}

void Notification::Notify() {
  static const auto next = Next<void (*)(Notification*)>("_ZN4absl7debian312Notification6NotifyEv");
  __tsan_release(this);
  next(this);
}

void Notification::WaitForNotification() const {
  static const auto next =
      Next<void (*)(const Notification*)>("_ZNK4absl7debian312Notification19WaitForNotificationEv");
  next(this);
  __tsan_acquire(const_cast<Notification*>(this));
}

bool BlockingCounter::DecrementCount() {
  static const auto next =
      Next<bool (*)(BlockingCounter*)>("_ZN4absl7debian315BlockingCounter14DecrementCountEv");
  __tsan_release(this);
  return next(this);
}

void BlockingCounter::Wait() {
  static const auto next =
      Next<void (*)(BlockingCounter*)>("_ZN4absl7debian315BlockingCounter4WaitEv");
  next(this);
  __tsan_acquire(this);
}

}  // namespace debian3
}  // namespace absl

#endif  // __SANITIZE_THREAD__

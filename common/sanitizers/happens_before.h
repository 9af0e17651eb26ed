#ifndef MUSTER_COMMON_SANITIZERS_HAPPENS_BEFORE_H_
#define MUSTER_COMMON_SANITIZERS_HAPPENS_BEFORE_H_

#if defined(__SANITIZE_THREAD__)
extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#endif

namespace muster {

// Tells ThreadSanitizer of an order that it cannot see, as where memory that processes share lies
// at two addresses of one: what a thread does before NoteBefore(place) comes before what another
// does after NoteAfter(place). Both say so of an order that there is; they make none. Nothing in
// other builds.
inline void NoteBefore([[maybe_unused]] const void* place) {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(const_cast<void*>(place));
#endif
}

inline void NoteAfter([[maybe_unused]] const void* place) {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(const_cast<void*>(place));
#endif
}

}  // namespace muster

#endif  // MUSTER_COMMON_SANITIZERS_HAPPENS_BEFORE_H_

#include "worker/collectives/transport/pipes/doorbell.h"

#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstring>

#include "common/base/status_macros.h"
#include "common/transport/system_error.h"

namespace muster {
namespace {

static_assert(sizeof(DoorbellPage) <= Doorbell::kBytes);

// Processes share the word, hence no FUTEX_PRIVATE_FLAG.
void FutexWake(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

absl::StatusOr<Doorbell> Doorbell::Create() {
  MUSTER_ASSIGN_OR_RETURN(SharedRegion region, SharedRegion::Create(kBytes));
  Descriptor event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.valid()) return SystemError("eventfd");
  return Doorbell(std::move(region), std::move(event));
}

absl::StatusOr<Doorbell> Doorbell::Map(Descriptor page, Descriptor event) {
  MUSTER_ASSIGN_OR_RETURN(SharedRegion region, SharedRegion::Map(std::move(page), kBytes));
  region.CloseDescriptor();
  return Doorbell(std::move(region), std::move(event));
}

void Doorbell::Ring(uint32_t how) {
  if (how == static_cast<uint32_t>(Sleep::kPoll)) {
    eventfd_write(event_.get(), 1);
    return;
  }
  Count();
  FutexWake(page().word);
}

void Doorbell::RingAll() {
  Ring(static_cast<uint32_t>(Sleep::kFutex));
  Ring(static_cast<uint32_t>(Sleep::kPoll));
}

void Doorbell::SleepOnFutex(uint32_t word, absl::Duration timeout) {
  const timespec limit = absl::ToTimespec(std::max(timeout, absl::ZeroDuration()));
  syscall(SYS_futex, &page().word, FUTEX_WAIT, word,
          timeout == absl::InfiniteDuration() ? nullptr : &limit, nullptr, 0);
}

void Doorbell::NoteProcessor(int processor) {
  const auto value = static_cast<uint32_t>(processor + 1);
  // A line that nobody writes stays in all caches.
  std::atomic<uint32_t>& noted = page().processor;
  if (noted.load(std::memory_order_relaxed) != value) {
    noted.store(value, std::memory_order_relaxed);
  }
}

void Doorbell::DrainEvent() {
  eventfd_t rings;
  eventfd_read(event_.get(), &rings);
}

void Doorbell::Publish(const CallState& state) {
  DoorbellPage& shared = page();
  uint64_t words[sizeof(CallState) / sizeof(uint64_t)];
  std::memcpy(words, &state, sizeof(state));
  const uint64_t version = shared.state_version.load(std::memory_order_relaxed);
  shared.state_version.store(version + 1, std::memory_order_relaxed);
  // Each word is a release, so that a reader who sees one also sees the odd version before it.
  for (size_t i = 0; i < std::size(words); ++i) {
    shared.state[i].store(words[i], std::memory_order_release);
  }
  shared.state_version.store(version + 2, std::memory_order_release);
}

CallState Doorbell::Published() const {
  const DoorbellPage& shared = page();
  uint64_t words[sizeof(CallState) / sizeof(uint64_t)];
  CallState state;
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const uint64_t before = shared.state_version.load(std::memory_order_acquire);
    for (size_t i = 0; i < std::size(words); ++i) {
      words[i] = shared.state[i].load(std::memory_order_acquire);
    }
    if (before % 2 == 0 && shared.state_version.load(std::memory_order_relaxed) == before) {
      std::memcpy(&state, words, sizeof(state));
      // The peer's memory may hold anything.
      state.label[sizeof(state.label) - 1] = '\0';
      return state;
    }
  }
  return state;
}

}  // namespace muster

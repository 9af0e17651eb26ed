#ifndef MUSTER_WORKER_COLLECTIVES_TRANSPORT_PIPES_DOORBELL_H_
#define MUSTER_WORKER_COLLECTIVES_TRANSPORT_PIPES_DOORBELL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/transport/descriptor.h"
#include "common/transport/shared_memory/shared_region.h"
#include "worker/collectives/transport/transport.h"

namespace muster {

// A rank's page of shared memory that all its peers on the machine map, and an eventfd beside it:
// what wakes the rank, and what it is doing.
//
// A rank that waits for rings alone sleeps on the futex word. One that waits for sockets too sleeps
// in poll, with the eventfd among the descriptors. It tells in each ring (reader_waits,
// writer_waits) which of the two, so that the peer rings the right bell.
enum class Sleep : uint32_t { kNone = 0, kFutex = 1, kPoll = 2 };

struct DoorbellPage {
  alignas(64) std::atomic<uint32_t> word;
  // On which the rank last began or ended a call, or went to wait; one more, so that 0 is none.
  alignas(64) std::atomic<uint32_t> processor;
  // A sequence lock: odd while the state is being written.
  alignas(64) std::atomic<uint64_t> state_version;
  std::atomic<uint64_t> state[sizeof(CallState) / sizeof(uint64_t)];
};
static_assert(sizeof(CallState) % sizeof(uint64_t) == 0);

class Doorbell {
 public:
  static constexpr size_t kBytes = 4096;

  // This rank's own.
  static absl::StatusOr<Doorbell> Create();
  // A peer's.
  static absl::StatusOr<Doorbell> Map(Descriptor page, Descriptor event);

  // To hand over to peers.
  int page_descriptor() const { return region_.descriptor(); }
  int event_descriptor() const { return event_.get(); }

  // Wakes the owner from that kind of sleep. Any value is fine: it comes from the peer's memory.
  void Ring(uint32_t how);
  // Changes the word without waking anybody.
  void Count() { page().word.fetch_add(1, std::memory_order_seq_cst); }
  // Wakes the owner's thread however it sleeps.
  void RingAll();

  // For the owner. A sleep ends at once if the word is no longer `word`.
  uint32_t word() const { return page().word.load(std::memory_order_seq_cst); }
  void SleepOnFutex(uint32_t word, absl::Duration timeout);
  // Forgets rings of the eventfd.
  void DrainEvent();

  // Where the owner runs; -1: it has not said.
  void NoteProcessor(int processor);
  int processor() const {
    return static_cast<int>(page().processor.load(std::memory_order_relaxed)) - 1;
  }

  // By the owner's one thread.
  void Publish(const CallState& state);
  // By anybody. What a process was writing when it died is left out: the result may then be empty.
  CallState Published() const;

 private:
  Doorbell(SharedRegion region, Descriptor event)
      : region_(std::move(region)), event_(std::move(event)) {}
  DoorbellPage& page() const { return *reinterpret_cast<DoorbellPage*>(region_.data()); }

  SharedRegion region_;
  Descriptor event_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_TRANSPORT_PIPES_DOORBELL_H_

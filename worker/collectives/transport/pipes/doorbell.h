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

// The way in which a rank sleeps: on the futex word if it waits only for rings; in poll, with the
// eventfd among the descriptors, if it waits for sockets, too. The rank says in each ring
// (reader_waits, writer_waits) which of the two, so that the peer rings the right bell.
enum class Sleep : uint32_t { kNone = 0, kFutex = 1, kPoll = 2 };

struct DoorbellPage {
  alignas(64) std::atomic<uint32_t> word;
  // Processor on which the rank last began or ended a call, or went to wait, plus one; 0 for none.
  alignas(64) std::atomic<uint32_t> processor;
  // A sequence lock: odd while the state is being written.
  alignas(64) std::atomic<uint64_t> state_version;
  std::atomic<uint64_t> state[sizeof(CallState) / sizeof(uint64_t)];
};
static_assert(sizeof(CallState) % sizeof(uint64_t) == 0);

// A page of shared memory that a rank's peers on the machine map, and an eventfd: wakes the rank,
// and tells what the rank is doing.
class Doorbell {
 public:
  static constexpr size_t kBytes = 4096;

  // Creates this rank's own doorbell.
  static absl::StatusOr<Doorbell> Create();
  // Maps a peer's doorbell.
  static absl::StatusOr<Doorbell> Map(Descriptor page, Descriptor event);

  // Descriptors to hand over to peers.
  int page_descriptor() const { return region_.descriptor(); }
  int event_descriptor() const { return event_.get(); }

  // Wakes the owner from sleep `how`. Any value is fine, as it comes from the peer's memory.
  void Ring(uint32_t how);
  // Changes the word without waking anybody.
  void Count() { page().word.fetch_add(1, std::memory_order_seq_cst); }
  // Wakes the owner's thread however it sleeps.
  void RingAll();

  // Owner only. A sleep ends at once if the word is no longer `word`.
  uint32_t word() const { return page().word.load(std::memory_order_seq_cst); }
  void SleepOnFutex(uint32_t word, absl::Duration timeout);
  // Clears the eventfd.
  void DrainEvent();

  // Set and return the owner's processor; -1 if the owner has not said.
  void NoteProcessor(int processor);
  int processor() const {
    return static_cast<int>(page().processor.load(std::memory_order_relaxed)) - 1;
  }

  // Writes the owner's state. Owner's thread only.
  void Publish(const CallState& state);
  // Returns the owner's state, or an empty one if the owner died while writing. For any process.
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

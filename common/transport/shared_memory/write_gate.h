#ifndef MUSTER_COMMON_TRANSPORT_SHARED_MEMORY_WRITE_GATE_H_
#define MUSTER_COMMON_TRANSPORT_SHARED_MEMORY_WRITE_GATE_H_

#include <atomic>
#include <cstdint>

namespace muster {

// A gate in memory that two processes share: lets a server write to a client's memory while their
// channel lasts, and the client be sure that this is over. Either side closes it at the channel's
// end. Entering counts first and looks then; closing closes first and looks at the count then. Both
// are sequentially consistent, so one of the two sees the other. Thread-safe.
struct WriteGate {
  // Returns whether the caller may write; it has to leave either way. False: the gate is closed.
  bool Enter() {
    writers.fetch_add(1, std::memory_order_seq_cst);
    return closed.load(std::memory_order_seq_cst) == 0;
  }
  void Leave() { writers.fetch_sub(1, std::memory_order_release); }

  // Closes the gate for good. Writers that have entered may still write until Empty().
  void Close() { closed.store(1, std::memory_order_seq_cst); }
  bool Empty() const { return writers.load(std::memory_order_seq_cst) == 0; }

  alignas(64) std::atomic<uint32_t> writers;
  std::atomic<uint32_t> closed;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_SHARED_MEMORY_WRITE_GATE_H_

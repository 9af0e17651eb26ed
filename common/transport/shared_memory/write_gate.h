#ifndef MUSTER_COMMON_TRANSPORT_SHARED_MEMORY_WRITE_GATE_H_
#define MUSTER_COMMON_TRANSPORT_SHARED_MEMORY_WRITE_GATE_H_

#include <atomic>
#include <cstdint>

namespace muster {

// In memory that two processes share: lets a server write to a client's memory while the channel
// between them lasts, and the client be sure that it does so no longer. Either side closes it at
// the channel's end. Whoever enters counts first and looks then, who closes does so the other way
// round, both sequentially consistent: one of the two sees the other. Thread-safe.
struct WriteGate {
  // Whether the caller may write; either way it has to leave. False: the gate is closed.
  bool Enter() {
    writers.fetch_add(1, std::memory_order_seq_cst);
    return closed.load(std::memory_order_seq_cst) == 0;
  }
  void Leave() { writers.fetch_sub(1, std::memory_order_release); }

  // For good. Whoever has entered may still write until nobody is within.
  void Close() { closed.store(1, std::memory_order_seq_cst); }
  bool Empty() const { return writers.load(std::memory_order_seq_cst) == 0; }

  alignas(64) std::atomic<uint32_t> writers;
  std::atomic<uint32_t> closed;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_SHARED_MEMORY_WRITE_GATE_H_

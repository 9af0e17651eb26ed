#ifndef MUSTER_COMMON_PARTITION_UNIT_PULLS_H_
#define MUSTER_COMMON_PARTITION_UNIT_PULLS_H_

#include <cstdint>
#include <vector>

namespace muster {

// The most bytes that a worker asks for before they are due, and that it sends before they are
// acknowledged: what moves gradients goes by them, and plans of memory.
inline constexpr uint64_t kPullWindowBytes = uint64_t{16} << 20;
inline constexpr uint64_t kPushWindowBytes = uint64_t{8} << 20;

// Decides when a worker that has memory for all units asks servers for each unit's parameters: once
// a clock, in order, when the unit or the one before it is due, and earlier as long as no more than
// a window of bytes is on its way. Pure arithmetic. Not thread-safe.
class UnitPulls {
 public:
  // `bytes` are those of each unit's parameters.
  UnitPulls(std::vector<uint64_t> bytes, uint64_t window_bytes);

  // Begins a clock. Returns the number of units to ask for, from unit 0 on: up to the first that
  // has parameters, and further ones.
  int Begin();
  // Returns the number of units, from unit 0 on, that are to have been asked for as `unit` is due.
  int Acquire(int unit) { return AskThrough(unit + 1); }
  // Tells that the unit's parameters were waited for.
  void Came(int unit) { asked_bytes_ -= bytes_[unit]; }

 private:
  int AskThrough(int unit);

  const std::vector<uint64_t> bytes_;
  const uint64_t window_bytes_;
  int next_ = 0;
  uint64_t asked_bytes_ = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_UNIT_PULLS_H_

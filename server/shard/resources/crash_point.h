#ifndef MUSTER_SERVER_SHARD_RESOURCES_CRASH_POINT_H_
#define MUSTER_SERVER_SHARD_RESOURCES_CRASH_POINT_H_

#include <atomic>
#include <functional>
#include <utility>

#include "absl/strings/string_view.h"

namespace muster {

// Lets tests stop an engine at a named point as if the process had died there: from then on its
// partitions neither write nor answer. Thread-safe.
class CrashPoint {
 public:
  // A null `hook` never crashes the engine.
  explicit CrashPoint(std::function<bool(absl::string_view)> hook) : hook_(std::move(hook)) {}

  bool crashed() const { return crashed_.load(std::memory_order_relaxed); }

  // Passes the point. Returns whether the engine has crashed, here or before.
  bool Pass(absl::string_view point) {
    if (!hook_) return false;
    if (!crashed() && hook_(point)) crashed_.store(true, std::memory_order_relaxed);
    return crashed();
  }

 private:
  const std::function<bool(absl::string_view)> hook_;
  std::atomic<bool> crashed_{false};
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_RESOURCES_CRASH_POINT_H_

#ifndef MUSTER_COMMON_CHAT_TEMPLATE_VALUES_BUDGET_H_
#define MUSTER_COMMON_CHAT_TEMPLATE_VALUES_BUDGET_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "common/chat_template/values/chat_template_limits.h"

namespace muster {

// Counts what one rendering costs. Everything that makes or walks values spends before it works.
class Budget {
 public:
  explicit Budget(const ChatTemplateLimits& limits) : limits_(limits) {}

  // Spends a step, and another for every 64 bytes. Fails when the steps are used up.
  absl::Status Spend(size_t bytes = 0);

  // Fails if a text of so many bytes is longer than any may be.
  absl::Status CheckText(size_t bytes) const;

  // Does both.
  absl::Status SpendText(size_t bytes);

  const ChatTemplateLimits& limits() const { return limits_; }

  // Is in scope while the rendering calls itself.
  class Nested {
   public:
    explicit Nested(Budget& budget) : budget_(budget) { ++budget_.depth_; }
    ~Nested() { --budget_.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    // Fails where it is too deep.
    absl::Status Check() const;

   private:
    Budget& budget_;
  };

 private:
  const ChatTemplateLimits limits_;
  int64_t steps_ = 0;
  int depth_ = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_CHAT_TEMPLATE_VALUES_BUDGET_H_

#ifndef MUSTER_COMMON_CHAT_TEMPLATE_CHAT_TEMPLATE_LIMITS_H_
#define MUSTER_COMMON_CHAT_TEMPLATE_CHAT_TEMPLATE_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace muster {

// These bound what a template may cost. Templates come with models that somebody else made, and one
// template renders every line of a data set.
struct ChatTemplateLimits {
  size_t max_template_bytes = 256 << 10;
  // Blocks, parentheses and operators within one another, in the text and, with the macros that
  // call one another, while it is rendered.
  int max_depth = 200;
  // A step is an expression, a statement, or 64 bytes of a value that is made or walked; so this
  // bounds time and memory.
  int64_t max_steps = 2'000'000;
  // This bounds the rendered text, and any text on the way to it.
  size_t max_output_bytes = 16 << 20;
};

// Lists and dictionaries may lie so deep within one another, in what is rendered, too.
inline constexpr int kMaxValueDepth = 64;

}  // namespace muster

#endif  // MUSTER_COMMON_CHAT_TEMPLATE_CHAT_TEMPLATE_LIMITS_H_

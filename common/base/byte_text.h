#ifndef MUSTER_COMMON_BASE_BYTE_TEXT_H_
#define MUSTER_COMMON_BASE_BYTE_TEXT_H_

#include <cstddef>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace muster {

// The same memory as bytes and as text; nothing is copied.
inline absl::Span<const std::byte> AsBytes(absl::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

inline absl::string_view AsText(absl::Span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_BYTE_TEXT_H_

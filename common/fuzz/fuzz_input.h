#ifndef MUSTER_COMMON_FUZZ_FUZZ_INPUT_H_
#define MUSTER_COMMON_FUZZ_FUZZ_INPUT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"

namespace muster {

// Cuts a fuzzer's input into the parts that a target needs. A part that is not there is zeros, or
// shorter.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  // Takes a little-endian number, or a struct as it lies in memory.
  template <typename T>
  T Number() {
    T value{};
    const absl::string_view bytes = Bytes(sizeof(T));
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }

  // Takes a byte that chooses one of `count` ways; seeds in text say '0', '1', and so on.
  unsigned Choice(unsigned count) { return (Number<uint8_t>() - '0' + 256u) % 256u % count; }

  // Takes `count` bytes.
  absl::string_view Bytes(size_t count) {
    const absl::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(bytes.size());
    return bytes;
  }

  // Takes all up to `separator`, which goes too; all that is left where there is none.
  absl::string_view Until(char separator) {
    const absl::string_view bytes = Bytes(rest_.find(separator));
    Bytes(1);
    return bytes;
  }

  absl::string_view rest() const { return rest_; }

 private:
  absl::string_view rest_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_FUZZ_FUZZ_INPUT_H_

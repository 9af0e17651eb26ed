#ifndef MUSTER_COMMON_TRANSPORT_WIRE_H_
#define MUSTER_COMMON_TRANSPORT_WIRE_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "absl/strings/string_view.h"

namespace muster {

// Writes the short messages of handshakes and control connections: numbers as they lie in memory
// (little-endian machines only), strings behind their length.
class WireWriter {
 public:
  template <typename T>
  void Number(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Text(absl::string_view text) {
    Number(static_cast<uint32_t>(text.size()));
    bytes_.append(text.data(), text.size());
  }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Reads what a WireWriter wrote, or untrusted bytes. After a read past the end, or a string longer
// than what is left, ok() is false and values are empty.
class WireReader {
 public:
  explicit WireReader(absl::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T Number() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    if (bytes_.size() < sizeof(T)) {
      ok_ = false;
      return value;
    }
    std::memcpy(&value, bytes_.data(), sizeof(T));
    bytes_.remove_prefix(sizeof(T));
    return value;
  }
  std::string Text() {
    const uint32_t length = Number<uint32_t>();
    if (!ok_ || length > bytes_.size()) {
      ok_ = false;
      return "";
    }
    std::string text(bytes_.data(), length);
    bytes_.remove_prefix(length);
    return text;
  }

  bool ok() const { return ok_; }
  // Returns whether everything was read and nothing more was there.
  bool Done() const { return ok_ && bytes_.empty(); }

 private:
  absl::string_view bytes_;
  bool ok_ = true;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_WIRE_H_

#include "server/coordinator/store/job_store.h"

#include "absl/strings/str_cat.h"

namespace muster {

std::string StoreKeyPrefix(absl::string_view id) {
  return absl::StrCat(id, absl::string_view("\0", 1));
}

std::string StoreKey(absl::string_view id, uint64_t number) {
  // Big-endian, so that keys are in order of the number.
  char bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(number >> (8 * (7 - i)));
  return absl::StrCat(StoreKeyPrefix(id), absl::string_view(bytes, 8));
}

std::string StoreKey(absl::string_view id, absl::string_view second) {
  return absl::StrCat(StoreKeyPrefix(id), second);
}

uint64_t StoreKeyNumber(absl::string_view key) {
  uint64_t number = 0;
  for (char byte : key.substr(key.size() - 8)) {
    number = number << 8 | static_cast<unsigned char>(byte);
  }
  return number;
}

std::pair<std::string, std::string> SplitStoreKey(absl::string_view key) {
  const size_t zero = key.find('\0');
  return {std::string(key.substr(0, zero)), std::string(key.substr(zero + 1))};
}

}  // namespace muster

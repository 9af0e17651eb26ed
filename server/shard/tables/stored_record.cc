#include "server/shard/tables/stored_record.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

static_assert(sizeof(StoredRecord) == 24 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "records are stored as they lie in memory");

// memcpy with nothing to copy may be given null pointers, which it does not allow.
void Copy(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace

std::vector<std::byte> EncodeRecord(const StoredRecord& record, absl::Span<const float> weights,
                                    absl::Span<const float> state) {
  const size_t weight_bytes = weights.size() * sizeof(float);
  std::vector<std::byte> bytes(sizeof(record) + weight_bytes + state.size() * sizeof(float));
  Copy(bytes.data(), &record, sizeof(record));
  Copy(bytes.data() + sizeof(record), weights.data(), weight_bytes);
  Copy(bytes.data() + sizeof(record) + weight_bytes, state.data(), state.size() * sizeof(float));
  return bytes;
}

absl::Status DecodeRecord(absl::Span<const std::byte> bytes, StoredRecord& record,
                          absl::Span<float> weights, absl::Span<float> state) {
  const size_t weight_bytes = weights.size() * sizeof(float);
  const size_t expected = sizeof(record) + weight_bytes + state.size() * sizeof(float);
  if (bytes.size() != expected) {
    return absl::DataLossError(
        absl::StrCat("stored value has ", bytes.size(), " bytes, expected ", expected));
  }
  Copy(&record, bytes.data(), sizeof(record));
  Copy(weights.data(), bytes.data() + sizeof(record), weight_bytes);
  Copy(state.data(), bytes.data() + sizeof(record) + weight_bytes, state.size() * sizeof(float));
  return absl::OkStatus();
}

}  // namespace muster

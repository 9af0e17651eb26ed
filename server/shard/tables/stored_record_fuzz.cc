#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "common/fuzz/fuzz_check.h"
#include "common/fuzz/fuzz_input.h"
#include "server/shard/tables/stored_record.h"

namespace muster {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  std::vector<float> weights(input.Number<uint8_t>() % 32);
  std::vector<float> state(input.Number<uint8_t>() % 64);
  const absl::string_view rest = input.rest();
  const absl::Span<const std::byte> bytes(reinterpret_cast<const std::byte*>(rest.data()),
                                          rest.size());
  StoredRecord record;
  const absl::Status status =
      DecodeRecord(bytes, record, absl::MakeSpan(weights), absl::MakeSpan(state));
  const size_t expected = sizeof(record) + (weights.size() + state.size()) * sizeof(float);
  FUZZ_CHECK(status.ok() == (bytes.size() == expected));
  if (!status.ok()) {
    FUZZ_CHECK(status.code() == absl::StatusCode::kDataLoss);
    return 0;
  }
  const std::vector<std::byte> again = EncodeRecord(record, weights, state);
  FUZZ_CHECK(again.size() == expected && std::memcmp(again.data(), bytes.data(), expected) == 0);
  return 0;
}

}  // namespace muster

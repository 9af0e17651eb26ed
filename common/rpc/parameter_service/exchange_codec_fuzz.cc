#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/fuzz/fuzz_check.h"
#include "common/fuzz/fuzz_input.h"
#include "common/rpc/parameter_service/exchange_codec.h"
#include "google/protobuf/stubs/logging.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"
#include "proto/parameter_service.pb.h"

namespace muster {
namespace {

std::string Flatten(const Payload& payload) {
  std::string bytes(payload.size(), '\0');
  payload.CopyTo(bytes.data());
  return bytes;
}

// The bytes in slices of `step` bytes, as a transport might deliver them.
grpc::ByteBuffer Cut(absl::string_view bytes, size_t step) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size(); at += step) {
    slices.emplace_back(bytes.data() + at, std::min(step, bytes.size() - at));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

template <typename Message>
void Check(absl::string_view bytes, size_t step) {
  Message header;
  Payload payload;
  const absl::Status status = DecodeExchange(Cut(bytes, step), &header, &payload);
  if (!status.ok()) {
    FUZZ_CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    FUZZ_CHECK(status.message().size() < 200);
    return;
  }
  // Protobuf reads the same.
  Message whole;
  FUZZ_CHECK(whole.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
  FUZZ_CHECK(whole.payload() == Flatten(payload));
  whole.clear_payload();
  FUZZ_CHECK(whole.SerializeAsString() == header.SerializeAsString());

  Message again;
  Payload same;
  FUZZ_CHECK(DecodeExchange(EncodeExchange(header, payload), &again, &same).ok());
  FUZZ_CHECK(again.SerializeAsString() == header.SerializeAsString());
  FUZZ_CHECK(Flatten(same) == Flatten(payload));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const google::protobuf::LogSilencer silencer;
  FuzzInput input(data, size);
  const size_t step = 1 + input.Number<uint8_t>();
  Check<v1::ExchangeRequest>(input.rest(), step);
  Check<v1::ExchangeReply>(input.rest(), step);
  return 0;
}

}  // namespace muster

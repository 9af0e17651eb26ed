#ifndef MUSTER_COMMON_RPC_PARAMETER_SERVICE_EXCHANGE_CODEC_H_
#define MUSTER_COMMON_RPC_PARAMETER_SERVICE_EXCHANGE_CODEC_H_

#include "absl/status/status.h"
#include "common/base/payload.h"

namespace google::protobuf {
class MessageLite;
}  // namespace google::protobuf

namespace grpc {
class ByteBuffer;
}  // namespace grpc

namespace muster {

// Number of the `payload` field, in ExchangeRequest and ExchangeReply alike.
inline constexpr int kPayloadField = 15;

// Returns the wire form of an ExchangeRequest or ExchangeReply whose payload is not in the message:
// plain protobuf to the reader, with the payload last. Payload bytes are copied only if they lie in
// short spans. gRPC holds the payload's owner until the last byte is sent, which may be after the
// call ended. REQUIRES: the header's own payload field is empty.
grpc::ByteBuffer EncodeExchange(const google::protobuf::MessageLite& header,
                                const Payload& payload);

// Returns the bytes that EncodeExchange would make.
size_t EncodedBytes(const google::protobuf::MessageLite& header, const Payload& payload);

// Parses all fields except the payload into `header`. `payload` shares the received slices, without
// a copy, and keeps them alive. Fields may come in any order; of a repeated payload the last
// counts, as in protobuf. INVALID_ARGUMENT: the bytes are not such a message; says at which offset
// and why.
absl::Status DecodeExchange(const grpc::ByteBuffer& buffer, google::protobuf::MessageLite* header,
                            Payload* payload);

}  // namespace muster

#endif  // MUSTER_COMMON_RPC_PARAMETER_SERVICE_EXCHANGE_CODEC_H_

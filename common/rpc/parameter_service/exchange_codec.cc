#include "common/rpc/parameter_service/exchange_codec.h"

#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/gathered_payload.h"
#include "google/protobuf/message_lite.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"

namespace muster {
namespace {

// The parts of protobuf's wire format that headers can hold.
constexpr uint64_t kVarint = 0;
constexpr uint64_t kFixed64 = 1;
constexpr uint64_t kLengthDelimited = 2;
constexpr uint64_t kFixed32 = 5;
constexpr size_t kMaxTagBytes = 5;
constexpr uint64_t kPayloadTag = kPayloadField << 3 | kLengthDelimited;

size_t VarintBytes(uint64_t value) {
  size_t bytes = 1;
  while (value >= 0x80) {
    value >>= 7;
    ++bytes;
  }
  return bytes;
}

uint8_t* WriteVarint(uint64_t value, uint8_t* at) {
  while (value >= 0x80) {
    *at++ = static_cast<uint8_t>(value) | 0x80;
    value >>= 7;
  }
  *at++ = static_cast<uint8_t>(value);
  return at;
}

// Returns the bytes of tag and length, which precede the payload's.
size_t PayloadPrefixBytes(size_t payload_bytes) {
  return payload_bytes == 0 ? 0 : VarintBytes(kPayloadTag) + VarintBytes(payload_bytes);
}

// Returns a slice over `span` that shares its ownership until gRPC is done with the slice.
grpc::Slice Borrow(Payload::Span span, const std::shared_ptr<const void>& owner) {
  return grpc::Slice(
      const_cast<std::byte*>(span.data()), span.size(),
      [](void* share) { delete static_cast<std::shared_ptr<const void>*>(share); },
      new std::shared_ptr<const void>(owner));
}

// Reads a message in several spans, from start to end.
class Cursor {
 public:
  explicit Cursor(const Payload& bytes) : bytes_(bytes) {}

  size_t offset() const { return offset_; }
  bool at_end() const { return offset_ == bytes_.size(); }

  // Returns false if the message ends before.
  bool Skip(uint64_t count) {
    if (count > bytes_.size() - offset_) return false;
    offset_ += count;
    in_span_ += count;
    while (span_ < bytes_.spans().size() && in_span_ >= bytes_.spans()[span_].size()) {
      in_span_ -= bytes_.spans()[span_].size();
      ++span_;
    }
    return true;
  }

  // Returns false if the message ends before the number does, or the number has more than 64 bits.
  bool ReadVarint(uint64_t* value) {
    *value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      uint8_t byte;
      if (!ReadByte(&byte)) return false;
      if (shift == 63 && byte > 1) return false;
      *value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }

 private:
  bool ReadByte(uint8_t* byte) {
    // Spans may be empty at the very start only; Skip leaves no empty one behind.
    if (!Skip(0) || at_end()) return false;
    *byte = static_cast<uint8_t>(bytes_.spans()[span_][in_span_]);
    return Skip(1);
  }

  const Payload& bytes_;
  size_t offset_ = 0;
  size_t span_ = 0;
  size_t in_span_ = 0;
};

absl::Status Malformed(size_t offset, size_t size, const char* what) {
  return absl::InvalidArgumentError(
      absl::StrCat("malformed exchange message: ", what, " at byte ", offset, " of ", size));
}

void AppendTo(std::string* out, const Payload& bytes, size_t begin, size_t end) {
  const size_t old = out->size();
  out->resize(old + (end - begin));
  bytes.Slice(begin, end - begin).CopyTo(out->data() + old);
}

// A message's fields: `header` is all except the payload, in order; the payload is [begin, begin +
// bytes).
struct Layout {
  std::string header;
  size_t payload_begin = 0;
  size_t payload_bytes = 0;
};

absl::Status FindFields(const Payload& message, Layout* layout) {
  Cursor cursor(message);
  size_t kept = 0;  // Everything before is in `header` or was payload.
  while (!cursor.at_end()) {
    const size_t field = cursor.offset();
    uint64_t tag, length = 0;
    if (!cursor.ReadVarint(&tag) || cursor.offset() - field > kMaxTagBytes ||
        tag > std::numeric_limits<uint32_t>::max() || tag >> 3 == 0) {
      return Malformed(field, message.size(), "bad field tag");
    }
    bool whole = true;
    switch (tag & 7) {
      case kVarint:
        whole = cursor.ReadVarint(&length);
        break;
      case kFixed64:
        whole = cursor.Skip(8);
        break;
      case kFixed32:
        whole = cursor.Skip(4);
        break;
      case kLengthDelimited: {
        whole = cursor.ReadVarint(&length);
        const size_t begin = cursor.offset();
        whole = whole && cursor.Skip(length);
        if (whole && tag == kPayloadTag) {
          AppendTo(&layout->header, message, kept, field);
          layout->payload_begin = begin;
          layout->payload_bytes = length;
          kept = cursor.offset();
        }
        break;
      }
      default:
        return Malformed(field, message.size(), "unsupported wire type");
    }
    if (!whole) return Malformed(field, message.size(), "field is cut short");
  }
  AppendTo(&layout->header, message, kept, message.size());
  return absl::OkStatus();
}

}  // namespace

size_t EncodedBytes(const google::protobuf::MessageLite& header, const Payload& payload) {
  return header.ByteSizeLong() + PayloadPrefixBytes(payload.size()) + payload.size();
}

grpc::ByteBuffer EncodeExchange(const google::protobuf::MessageLite& header,
                                const Payload& payload) {
  const size_t header_bytes = header.ByteSizeLong();
  std::vector<grpc::Slice> slices;
  slices.reserve(1 + payload.spans().size());
  slices.emplace_back(header_bytes + PayloadPrefixBytes(payload.size()));
  auto* at = const_cast<uint8_t*>(slices[0].begin());
  at = header.SerializeWithCachedSizesToArray(at);
  if (payload.size() > 0) {
    at = WriteVarint(kPayloadTag, at);
    WriteVarint(payload.size(), at);
  }
  if (InShortSpans(payload)) {
    payload.CopyTo(const_cast<uint8_t*>(slices.emplace_back(payload.size()).begin()));
    return grpc::ByteBuffer(slices.data(), slices.size());
  }
  for (const Payload::Span span : payload.spans()) {
    if (!span.empty()) slices.push_back(Borrow(span, payload.owner()));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

absl::Status DecodeExchange(const grpc::ByteBuffer& buffer, google::protobuf::MessageLite* header,
                            Payload* payload) {
  // Short slices hold their bytes within themselves, so spans point into this vector, which must
  // not move any more.
  auto slices = std::make_shared<std::vector<grpc::Slice>>();
  if (grpc::Status status = buffer.Dump(slices.get()); !status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("malformed exchange message: ", status.error_message()));
  }
  std::vector<Payload::Span> spans;
  spans.reserve(slices->size());
  for (const grpc::Slice& slice : *slices) {
    spans.emplace_back(reinterpret_cast<const std::byte*>(slice.begin()), slice.size());
  }
  const Payload message(std::move(spans), slices);
  Layout layout;
  if (absl::Status status = FindFields(message, &layout); !status.ok()) return status;
  if (!header->ParseFromString(layout.header)) {
    return Malformed(0, message.size(), "a header field does not parse");
  }
  *payload = layout.payload_bytes == 0 ? Payload()
                                       : message.Slice(layout.payload_begin, layout.payload_bytes);
  return absl::OkStatus();
}

}  // namespace muster

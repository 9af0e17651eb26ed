#include "common/tokenizer/files/token_array.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/round_up.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "stored tokens are little-endian");

template <typename T>
void Pack(absl::Span<const int32_t> tokens, std::string& packed) {
  const size_t begin = packed.size();
  packed.resize(begin + tokens.size() * sizeof(T));
  char* out = packed.data() + begin;
  for (const int32_t token : tokens) {
    const T value = static_cast<T>(token);
    memcpy(out, &value, sizeof(T));
    out += sizeof(T);
  }
}

// Token i of packed ones.
template <typename T>
uint32_t At(const char* packed, uint64_t i) {
  T value;
  memcpy(&value, packed + i * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void Unpack(const char* packed, uint64_t count, std::vector<int32_t>& out) {
  for (uint64_t i = 0; i < count; ++i) out.push_back(static_cast<int32_t>(At<T>(packed, i)));
}

template <typename T>
uint32_t Largest(absl::string_view packed) {
  uint32_t largest = 0;
  for (uint64_t i = 0; i < packed.size() / sizeof(T); ++i) {
    largest = std::max(largest, At<T>(packed.data(), i));
  }
  return largest;
}

}  // namespace

int TokenBytes(int64_t vocabulary) {
  return vocabulary <= int64_t{1} << 8 ? 1 : vocabulary <= int64_t{1} << 16 ? 2 : 4;
}

void PackTokens(absl::Span<const int32_t> tokens, int token_bytes, std::string& packed) {
  switch (token_bytes) {
    case 1:
      return Pack<uint8_t>(tokens, packed);
    case 2:
      return Pack<uint16_t>(tokens, packed);
    default:
      return Pack<uint32_t>(tokens, packed);
  }
}

void TokenChunks::Restore(std::vector<uint64_t> complete) {
  checksums_ = std::move(complete);
  bytes_ = checksums_.size() * kTokenChunkBytes;
}

void TokenChunks::Add(absl::string_view packed) {
  while (!packed.empty()) {
    if (chunk_ == nullptr) chunk_ = std::make_unique<FingerprintStream>();
    const uint64_t room = kTokenChunkBytes - bytes_ % kTokenChunkBytes;
    const absl::string_view part = packed.substr(0, room);
    chunk_->Add(part.data(), part.size());
    bytes_ += part.size();
    packed.remove_prefix(part.size());
    if (bytes_ % kTokenChunkBytes == 0) {
      checksums_.push_back(chunk_->Finish());
      chunk_ = nullptr;
    }
  }
}

std::vector<uint64_t> TokenChunks::Finish() {
  if (chunk_ != nullptr) checksums_.push_back(chunk_->Finish());
  chunk_ = nullptr;
  return std::move(checksums_);
}

uint64_t TokensFingerprint(absl::string_view tokenizer_json, int64_t tokens,
                           absl::Span<const uint64_t> checksums) {
  FingerprintStream fingerprint;
  fingerprint.Add(tokenizer_json.data(), tokenizer_json.size());
  fingerprint.Add(&tokens, sizeof(tokens));
  fingerprint.Add(checksums.data(), checksums.size() * sizeof(uint64_t));
  return fingerprint.Finish();
}

absl::Status CheckChunk(absl::string_view bytes, uint64_t chunk, absl::string_view checksums,
                        const std::string& origin, uint64_t first, uint64_t last) {
  uint64_t expected;
  memcpy(&expected, checksums.data() + chunk * sizeof(expected), sizeof(expected));
  const uint64_t actual = Fingerprint(bytes);
  if (actual == expected) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(origin, " is damaged within tokens ", first, " to ", last,
                                          ": their checksum is ", absl::Hex(actual), ", expected ",
                                          absl::Hex(expected),
                                          "; make it again with `muster data tokenize`"));
}

CheckedTokens::CheckedTokens(Layout layout, std::string origin)
    : layout_(layout),
      origin_(std::move(origin)),
      checked_(CeilDivide(layout.packed.size(), kTokenChunkBytes)) {}

absl::Status CheckedTokens::Check(uint64_t chunk) const {
  if (checked_[chunk].load(std::memory_order_relaxed)) return absl::OkStatus();
  const absl::string_view bytes = layout_.packed.substr(chunk * kTokenChunkBytes, kTokenChunkBytes);
  const uint64_t first = chunk * kTokenChunkBytes / layout_.token_bytes;
  MUSTER_RETURN_IF_ERROR(CheckChunk(bytes, chunk, layout_.checksums, origin_, first,
                                    first + bytes.size() / layout_.token_bytes));
  const uint32_t largest = layout_.token_bytes == 1   ? Largest<uint8_t>(bytes)
                           : layout_.token_bytes == 2 ? Largest<uint16_t>(bytes)
                                                      : Largest<uint32_t>(bytes);
  if (largest >= layout_.vocabulary) {
    return absl::DataLossError(absl::StrCat(origin_, " has the token ", largest, " after token ",
                                            first, ", but its tokenizer has only ",
                                            layout_.vocabulary, " tokens"));
  }
  checked_[chunk].store(true, std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::Status CheckedTokens::Read(uint64_t first, uint64_t count, std::vector<int32_t>& out) const {
  if (count == 0) return absl::OkStatus();
  const uint64_t begin = first * layout_.token_bytes;
  const uint64_t last = (first + count) * layout_.token_bytes - 1;
  for (uint64_t chunk = begin / kTokenChunkBytes; chunk <= last / kTokenChunkBytes; ++chunk) {
    MUSTER_RETURN_IF_ERROR(Check(chunk));
  }
  const char* packed = layout_.packed.data() + begin;
  switch (layout_.token_bytes) {
    case 1:
      Unpack<uint8_t>(packed, count, out);
      break;
    case 2:
      Unpack<uint16_t>(packed, count, out);
      break;
    default:
      Unpack<uint32_t>(packed, count, out);
  }
  return absl::OkStatus();
}

}  // namespace muster

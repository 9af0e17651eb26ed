#ifndef MUSTER_COMMON_TOKENIZER_BPE_BYTE_TOKENIZER_H_
#define MUSTER_COMMON_TOKENIZER_BPE_BYTE_TOKENIZER_H_

#include <cstdint>
#include <string>

#include "common/tokenizer/tokenizer.h"

namespace muster {

// A token for each byte, 256 in all, and no end-of-text.
class ByteTokenizer final : public Tokenizer {
 public:
  static constexpr int64_t kVocabulary = 256;

  ByteTokenizer();

  int64_t vocabulary() const override { return kVocabulary; }
  std::optional<int32_t> end_of_text() const override { return std::nullopt; }
  absl::Span<const int32_t> before_document() const override { return {}; }
  void Encode(absl::string_view text, TextStart start,
              absl::FunctionRef<void(absl::Span<const int32_t> tokens)> sink) const override;
  size_t SplitAfter(absl::string_view /*text*/, size_t at) const override { return at; }
  absl::string_view BytesOf(int32_t token) const override;
  const std::string& json() const override { return json_; }
  uint64_t fingerprint() const override { return fingerprint_; }

 private:
  // All bytes in their order.
  std::string bytes_;
  const std::string json_;
  const uint64_t fingerprint_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_BPE_BYTE_TOKENIZER_H_

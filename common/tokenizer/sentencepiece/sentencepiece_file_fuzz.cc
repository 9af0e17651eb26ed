#include <cstddef>
#include <cstdint>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/fuzz/fuzz_check.h"
#include "common/tokenizer/sentencepiece/sentencepiece_file.h"

namespace muster {
namespace {

absl::Status Use(const BpeVocabulary& vocabulary, absl::string_view sample) {
  const auto tokenizer = BpeTokenizer::Create(vocabulary);
  if (tokenizer.ok()) EncodeAll(**tokenizer, sample);
  return tokenizer.status();
}

absl::Status Use(const UnigramVocabulary& vocabulary, absl::string_view sample) {
  const auto tokenizer = UnigramTokenizer::Create(vocabulary);
  if (tokenizer.ok()) EncodeAll(**tokenizer, sample);
  return tokenizer.status();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto vocabulary = ParseSentencepieceFile(bytes, "tokenizer.model");
  absl::Status status = vocabulary.status();
  const auto use = [&](const auto& parsed) { return Use(parsed, bytes.substr(size - size % 257)); };
  if (status.ok()) status = std::visit(use, *vocabulary);
  FUZZ_CHECK(status.ok() || status.code() == absl::StatusCode::kInvalidArgument);
  // Nothing of the file is quoted.
  FUZZ_CHECK(status.message().size() < 1000);
  return 0;
}

}  // namespace muster

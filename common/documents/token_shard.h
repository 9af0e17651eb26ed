#ifndef MUSTER_COMMON_DOCUMENTS_TOKEN_SHARD_H_
#define MUSTER_COMMON_DOCUMENTS_TOKEN_SHARD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/documents/document.h"
#include "common/documents/windowed_file.h"

namespace muster {

// The type of the numbers in a file of tokens that another program wrote. Little-endian.
struct TokenType {
  int bytes = 2;
  bool is_signed = false;
};

// Returns the type that "u8", "u16", "i32" and so on name, with up to 64 bits.
std::optional<TokenType> TokenTypeNamed(absl::string_view name);
std::string NameOf(TokenType type);

// The tokens of such a file: one row of numbers, and nothing after it.
struct TokenRow {
  TokenType type;
  // The row begins at this byte.
  uint64_t offset = 0;
  uint64_t tokens = 0;
};

// Return whether the bytes begin like a shard of llm.c, an array of NumPy, or Megatron's index.
bool IsLlmC(absl::string_view head);
bool IsNumpy(absl::string_view head);
bool IsMegatronIndex(absl::string_view head);

// Return the row in a file.
//
// - llm.c (dev/data/data_common.py there): 256 i32, of which the first three are the magic, the
//   version and the number of tokens; then these. Magic 20240520 and version 1 have u16, magic
//   20240801 and version 7 have u32.
// - NumPy (.npy, versions 1 to 3): an array of one dimension of whole numbers.
// - raw: numbers and nothing else, as nanoGPT writes them, of a type that the caller knows.
//
// InvalidArgument, with path and byte: the header is damaged or tells of something else, or the
// file is longer or shorter than it says. Other errors are WindowedFile's.
absl::StatusOr<TokenRow> LlmCRow(WindowedFile& file);
absl::StatusOr<TokenRow> NumpyRow(WindowedFile& file);
absl::StatusOr<TokenRow> RawRow(const WindowedFile& file, TokenType type);

// Tokens are taken by these rules.
struct TokenRules {
  // Tokens lie in [0, vocabulary).
  int64_t vocabulary = 0;
  // Ends a document of files that do not tell where documents end.
  std::optional<int32_t> end_of_text;
  // Told how many more bytes were read. May be empty.
  std::function<void(uint64_t bytes)> progress;
};

// Gives `take` the documents of a row: each ends with an end-of-text, except perhaps the last one.
// InvalidArgument, with path and byte: a token is not in the vocabulary. Other errors are
// WindowedFile's. The first error of `take` ends the call.
absl::Status ForEachInRow(WindowedFile& file, const TokenRow& row, const TokenRules& rules,
                          TakeDocument take);

// Gives `take` the documents of Megatron's indexed data: `index` (.idx) says where the documents'
// sequences lie in `tokens` (.bin). Errors as above; InvalidArgument also for an index that is
// damaged, does not fit the tokens, or has the modes of several media.
absl::Status ForEachInMegatron(const std::string& index, const std::string& tokens,
                               const TokenRules& rules, TakeDocument take);

}  // namespace muster

#endif  // MUSTER_COMMON_DOCUMENTS_TOKEN_SHARD_H_

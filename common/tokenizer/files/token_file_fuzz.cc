#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"
#include "common/fuzz/fuzz_check.h"
#include "common/fuzz/fuzz_input.h"
#include "common/fuzz/memory_file.h"
#include "common/tokenizer/files/token_file.h"

namespace muster {
namespace {

template <typename T>
absl::string_view AsBytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

// A file whose checksums are right, of the tokenizer in the first line and the tokens after it; how
// much it says there is of each is off by what the input says.
std::string FileOf(FuzzInput& input) {
  const uint32_t token_bytes = input.Number<uint8_t>() - uint32_t{'0'};
  const auto tokens_off = input.Number<int8_t>();
  const auto tokenizer_off = input.Number<int8_t>();
  const auto chunks_off = input.Number<int8_t>();
  const absl::string_view json = input.Until('\n');
  std::string packed(input.rest());
  const uint64_t tokens = packed.size() / std::max<uint32_t>(1, token_bytes) + tokens_off;
  TokenChunks sums;
  sums.Add(packed);
  const std::vector<uint64_t> checksums = sums.Finish();
  packed.append((8 - packed.size() % 8) % 8, '\0');
  std::string header =
      absl::StrCat("MUSTERTK", AsBytes(uint32_t{1}), AsBytes(token_bytes), AsBytes(tokens),
                   AsBytes(uint64_t{9}), AsBytes(uint64_t{json.size()} + tokenizer_off),
                   AsBytes(uint64_t{checksums.size()} + chunks_off),
                   AsBytes(TokensFingerprint(json, static_cast<int64_t>(tokens), checksums)));
  header.resize(120);
  absl::StrAppend(&header, AsBytes(Fingerprint(header)), json);
  header.resize((header.size() + 63) / 64 * 64);
  absl::StrAppend(&header, packed);
  for (const uint64_t checksum : checksums) absl::StrAppend(&header, AsBytes(checksum));
  return header;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const MemoryFile* const file = new MemoryFile();
  FuzzInput input(data, size);
  file->Write(input.Choice(2) == 0 ? FileOf(input) : std::string(input.rest()));
  const auto opened = TokenFile::Open(file->path());
  if (!opened.ok()) {
    FUZZ_CHECK(opened.status().code() == absl::StatusCode::kInvalidArgument ||
               opened.status().code() == absl::StatusCode::kFailedPrecondition ||
               opened.status().code() == absl::StatusCode::kDataLoss);
    FUZZ_CHECK(absl::StrContains(opened.status().message(), file->path()));
    FUZZ_CHECK(opened.status().message().size() < 1000);
    return 0;
  }
  const TokenFile& tokens = **opened;
  // One by one reads the same as all at once.
  std::vector<int32_t> all;
  const absl::Status status = tokens.Read(0, tokens.tokens(), all);
  if (!status.ok()) {
    FUZZ_CHECK(status.code() == absl::StatusCode::kDataLoss);
    return 0;
  }
  FUZZ_CHECK(all.size() == tokens.tokens());
  std::vector<int32_t> one;
  for (uint64_t i = 0; i < tokens.tokens(); ++i) FUZZ_CHECK(tokens.Read(i, 1, one).ok());
  FUZZ_CHECK(one == all);
  for (const int32_t token : all) {
    FUZZ_CHECK(token >= 0 && token < tokens.tokenizer().vocabulary());
  }
  return 0;
}

}  // namespace muster

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

// Appends zeros up to a multiple of `alignment`.
void Align(size_t alignment, std::string& bytes) {
  bytes.resize((bytes.size() + alignment - 1) / alignment * alignment);
}

std::string AsBytes(const std::vector<uint64_t>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(uint64_t)};
}

// A file whose checksums are right, of the tokenizer in the first line and the tokens after it; how
// much it says there is of each is off by what the input says. In version 2 there are document ends
// and trained bits in two further lines.
std::string FileOf(FuzzInput& input, uint32_t version) {
  const uint32_t token_bytes = input.Number<uint8_t>() - uint32_t{'0'};
  const auto tokens_off = input.Number<int8_t>();
  const auto tokenizer_off = input.Number<int8_t>();
  const auto chunks_off = input.Number<int8_t>();
  const absl::string_view json = input.Until('\n');
  std::vector<uint64_t> ends;
  std::string bits;
  if (version == 2) {
    for (const char end : input.Until('\n')) ends.push_back(static_cast<unsigned char>(end) - '0');
    bits = std::string(input.Until('\n'));
  }
  std::string packed(input.rest());
  const uint64_t tokens = packed.size() / std::max<uint32_t>(1, token_bytes) + tokens_off;
  TokenChunks sums;
  sums.Add(packed);
  const std::vector<uint64_t> checksums = sums.Finish();
  TokenChunks bit_sums;
  bit_sums.Add(bits);
  const std::vector<uint64_t> bit_checksums = bit_sums.Finish();
  uint64_t fingerprint = TokensFingerprint(json, static_cast<int64_t>(tokens), checksums);
  if (!bit_checksums.empty()) {
    fingerprint = Fingerprint(absl::StrCat(AsBytes(fingerprint), AsBytes(bit_checksums)));
  }
  std::string header =
      absl::StrCat("MUSTERTK", AsBytes(version), AsBytes(token_bytes), AsBytes(tokens),
                   AsBytes(uint64_t{9}), AsBytes(uint64_t{json.size()} + tokenizer_off),
                   AsBytes(uint64_t{checksums.size()} + chunks_off), AsBytes(fingerprint));
  if (version == 2) {
    absl::StrAppend(&header, AsBytes(uint64_t{ends.size()}), AsBytes(Fingerprint(AsBytes(ends))),
                    AsBytes(uint64_t{bit_checksums.size()}));
  }
  header.resize(120);
  absl::StrAppend(&header, AsBytes(Fingerprint(header)), json);
  Align(64, header);
  absl::StrAppend(&header, packed);
  Align(8, header);
  absl::StrAppend(&header, AsBytes(checksums), AsBytes(ends), bits);
  Align(8, header);
  return absl::StrCat(header, AsBytes(bit_checksums));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const MemoryFile* const file = new MemoryFile();
  FuzzInput input(data, size);
  switch (input.Choice(3)) {
    case 0:
      file->Write(FileOf(input, 1));
      break;
    case 1:
      file->Write(input.rest());
      break;
    default:
      file->Write(FileOf(input, 2));
  }
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
  uint64_t before = 0;
  for (const uint64_t end : tokens.document_ends()) {
    FUZZ_CHECK(end > before && end <= tokens.tokens());
    before = end;
  }
  std::vector<uint8_t> trained;
  const absl::Status bits = tokens.ReadTrained(0, tokens.tokens(), trained);
  FUZZ_CHECK(bits.ok() ? trained.size() == tokens.tokens()
                       : bits.code() == absl::StatusCode::kDataLoss);
  for (const int32_t token : all) {
    FUZZ_CHECK(token >= 0 && token < tokens.tokenizer().vocabulary());
  }
  return 0;
}

}  // namespace muster

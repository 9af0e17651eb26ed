#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "common/documents/token_shard.h"
#include "common/fuzz/fuzz_check.h"
#include "common/fuzz/fuzz_input.h"
#include "common/fuzz/memory_file.h"

namespace muster {
namespace {

// Reads the file as a form, which the input chooses.
absl::Status Take(unsigned form, const std::string& path, const std::string& other,
                  const TokenRules& rules, TakeDocument take) {
  if (form == 3) return ForEachInMegatron(path, other, rules, take);
  auto file = WindowedFile::Open(path);
  if (!file.ok()) return file.status();
  const auto row = form == 0   ? LlmCRow(**file)
                   : form == 1 ? NumpyRow(**file)
                               : RawRow(**file, {8, true});
  if (!row.ok()) return row.status();
  return ForEachInRow(**file, *row, rules, take);
}

}  // namespace

// A file of tokens; of Megatron's, the tokens after the length of the index.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const MemoryFile* const file = new MemoryFile();
  static const MemoryFile* const other = new MemoryFile();
  FuzzInput input(data, size);
  const unsigned form = input.Choice(4);
  TokenRules rules;
  rules.vocabulary = 300;
  rules.end_of_text = 97;
  if (form == 3) {
    file->Write(input.Bytes(input.Number<uint8_t>()));
    other->Write(input.rest());
  } else {
    file->Write(input.rest());
  }
  size_t tokens = 0;
  bool continues = false;
  const absl::Status status =
      Take(form, file->path(), other->path(), rules, [&](const Document& document) {
        FUZZ_CHECK(document.parts.empty() && document.line == 0);
        for (const int32_t token : document.tokens) {
          FUZZ_CHECK(token >= 0 && token < rules.vocabulary);
        }
        tokens += document.tokens.size();
        continues = document.continues;
        return absl::OkStatus();
      });
  FUZZ_CHECK(tokens <= size);
  if (status.ok()) {
    FUZZ_CHECK(!continues);
    return 0;
  }
  FUZZ_CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  FUZZ_CHECK(absl::StrContains(status.message(), file->path()) ||
             absl::StrContains(status.message(), other->path()));
  FUZZ_CHECK(status.message().size() < 1000);
  return 0;
}

}  // namespace muster

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "common/fuzz/fuzz_check.h"
#include "common/fuzz/fuzz_input.h"
#include "common/tokenizer/bpe/bpe_json.h"
#include "common/tokenizer/bpe/gpt2_files.h"

namespace muster {

// The input is the files one after another, apart by form feeds; an empty one is not there.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  Gpt2Files files;
  files.vocab = input.Until('\f');
  files.merges = input.Until('\f');
  for (std::optional<absl::string_view>* const file :
       {&files.added_tokens, &files.special_tokens_map, &files.tokenizer_config,
        &files.generation_config, &files.config}) {
    const absl::string_view text = input.Until('\f');
    if (!text.empty()) *file = text;
  }
  auto vocabulary = ParseGpt2Files(files, "folder");
  if (!vocabulary.ok()) {
    FUZZ_CHECK(vocabulary.status().code() == absl::StatusCode::kInvalidArgument);
    FUZZ_CHECK(vocabulary.status().message().size() < 1000);
    return 0;
  }
  const auto tokenizer = BpeTokenizer::Create(*std::move(vocabulary));
  if (!tokenizer.ok()) return 0;
  auto written = ParseBpeJson((*tokenizer)->json(), "what was written");
  FUZZ_CHECK(written.ok());
  const auto again = BpeTokenizer::Create(*std::move(written));
  FUZZ_CHECK(again.ok() && (*again)->fingerprint() == (*tokenizer)->fingerprint());
  return 0;
}

}  // namespace muster

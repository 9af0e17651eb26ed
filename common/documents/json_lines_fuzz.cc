#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/chat_template/model_chat_template.h"
#include "common/documents/json_lines.h"
#include "common/fuzz/fuzz_check.h"
#include "common/fuzz/fuzz_input.h"
#include "common/fuzz/memory_file.h"
#include "common/text/utf8.h"

namespace muster {
namespace {

// Returns a template without marks of what is learned.
const ModelChatTemplate* Turns() {
  const std::string folder = absl::StrCat("/tmp/json_lines_fuzz.", getpid());
  std::filesystem::create_directory(folder);
  std::ofstream(folder + "/chat_template.jinja")
      << "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}"
         "{% if add_generation_prompt %}<assistant>{% endif %}";
  auto opened = ModelChatTemplate::Open(folder);
  std::filesystem::remove_all(folder);
  FUZZ_CHECK(opened.ok());
  return new ModelChatTemplate(*std::move(opened));
}

}  // namespace

// A field in the first line, then lines of JSON, or a compressed file of them.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const MemoryFile* const file = new MemoryFile();
  static const ModelChatTemplate* const turns = Turns();
  FuzzInput input(data, size);
  JsonDocumentOptions options;
  if (input.Choice(2) == 0) options.chat_template = turns;
  options.field = std::string(input.Until('\n'));
  file->Write(input.rest());
  int64_t last = 0;
  const absl::Status status = ForEachJsonLine(file->path(), options, [&](const Document& document) {
    FUZZ_CHECK(document.line > last);
    last = document.line;
    FUZZ_CHECK(!document.parts.empty() && document.tokens.empty());
    bool learned = false;
    for (const TextPart& part : document.parts) {
      FUZZ_CHECK(!part.text.empty() && IsUtf8(part.text));
      learned = learned || part.trained == Trained::kYes;
    }
    FUZZ_CHECK(learned);
    return absl::OkStatus();
  });
  if (status.ok()) return 0;
  FUZZ_CHECK(status.code() == absl::StatusCode::kInvalidArgument ||
             status.code() == absl::StatusCode::kDataLoss);
  FUZZ_CHECK(absl::StartsWith(status.message(), file->path()));
  FUZZ_CHECK(status.message().size() < 6000);
  return 0;
}

}  // namespace muster

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "common/chat_template/chat_template.h"
#include "common/fuzz/fuzz_check.h"
#include "common/fuzz/fuzz_input.h"

namespace muster {

// JSON values up to a zero byte, then a template.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ChatTemplateLimits limits;
  limits.max_template_bytes = 4 << 10;
  limits.max_depth = 60;
  limits.max_steps = 20'000;
  limits.max_output_bytes = 64 << 10;
  FuzzInput input(data, size);
  const absl::string_view text = input.Until('\0');
  const auto values = nlohmann::ordered_json::parse(text.begin(), text.end(), nullptr,
                                                    /*allow_exceptions=*/false);
  const auto parsed = ChatTemplate::Parse(input.rest(), limits);
  if (!parsed.ok()) {
    FUZZ_CHECK(parsed.status().code() == absl::StatusCode::kInvalidArgument);
    FUZZ_CHECK(parsed.status().message().size() < 1000);
    return 0;
  }
  RenderOptions options;
  options.now = absl::UnixEpoch();
  const auto chat = parsed->Render(values, options);
  if (!chat.ok()) {
    FUZZ_CHECK(chat.status().code() == absl::StatusCode::kInvalidArgument);
    FUZZ_CHECK(chat.status().message().size() < 5000);
    return 0;
  }
  FUZZ_CHECK(chat->text.size() <= limits.max_output_bytes);
  size_t end = 0;
  for (const ByteRange& range : chat->generated) {
    FUZZ_CHECK(end <= range.begin && range.begin < range.end && range.end <= chat->text.size());
    end = range.end;
  }
  const auto again = parsed->Render(values, options);
  FUZZ_CHECK(again.ok() && again->text == chat->text);
  return 0;
}

}  // namespace muster

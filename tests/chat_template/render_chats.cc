// Renders chats for jinja_test.py: a line of JSON in, {"template", "values"} or with "now" in
// seconds, a line of JSON out: {"text", "generated"} or {"error"}.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "common/chat_template/chat_template.h"
#include "common/text/dump_json.h"

namespace muster {
namespace {

using Json = nlohmann::ordered_json;

absl::StatusOr<RenderedChat> RenderLine(const Json& line) {
  const auto parsed = ChatTemplate::Parse(line["template"].get<std::string>());
  if (!parsed.ok()) return parsed.status();
  RenderOptions options;
  if (line.contains("now")) options.now = absl::FromUnixSeconds(line["now"].get<int64_t>());
  return parsed->Render(line["values"], options);
}

Json Answer(const Json& line) {
  const auto chat = RenderLine(line);
  if (!chat.ok()) return {{"error", std::string(chat.status().message())}};
  Json generated = Json::array();
  for (const ByteRange& range : chat->generated) generated.push_back({range.begin, range.end});
  return {{"text", chat->text}, {"generated", generated}};
}

}  // namespace
}  // namespace muster

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << muster::DumpJson(muster::Answer(nlohmann::ordered_json::parse(line))) << "\n";
  }
  return 0;
}

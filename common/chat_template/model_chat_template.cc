#include "common/chat_template/model_chat_template.h"

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/fingerprint.h"
#include "common/base/status_macros.h"
#include "common/files/file_content.h"
#include "common/files/parse_json.h"
#include "common/text/dump_json.h"
#include "common/text/printable.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr char kDefault[] = "default";

absl::Status NoTemplate(const std::string& folder, const std::string& name,
                        const std::vector<std::string>& there) {
  if (!there.empty()) {
    return absl::NotFoundError(absl::StrCat(folder, " has no chat template \"", PrintableLine(name),
                                            "\"; it has ",
                                            PrintableLine(absl::StrJoin(there, ", "))));
  }
  return absl::NotFoundError(
      absl::StrCat(folder,
                   " has no chat template: neither chat_template.jinja, nor chat_template in a "
                   "tokenizer_config.json; name the folder of a model that was trained on chats"));
}

// Returns the text of the template in a tokenizer_config.json: a text, or a list of texts by name.
absl::StatusOr<std::string> TemplateIn(const Json& config, const std::string& folder,
                                       const std::string& name) {
  const auto found = config.find("chat_template");
  if (found == config.end()) return NoTemplate(folder, name, {});
  if (found->is_string()) {
    if (name != kDefault) return NoTemplate(folder, name, {kDefault});
    return found->get<std::string>();
  }
  std::vector<std::string> there;
  if (!found->is_array()) return NoTemplate(folder, name, there);
  for (const Json& each : *found) {
    if (!each.is_object() || !each.contains("name") || !each["name"].is_string() ||
        !each.contains("template") || !each["template"].is_string()) {
      return absl::InvalidArgumentError(absl::StrCat(
          folder,
          "/tokenizer_config.json: chat_template is a list of something else than names "
          "and templates"));
    }
    if (each["name"] == name) return each["template"].get<std::string>();
    there.push_back(each["name"].get<std::string>());
  }
  return NoTemplate(folder, name, there);
}

// Returns the special tokens of a tokenizer_config.json: each a text, or an object with its text.
nlohmann::ordered_json TokensIn(const Json& config) {
  nlohmann::ordered_json tokens = nlohmann::ordered_json::object();
  for (const auto& [key, value] : config.items()) {
    if (!absl::EndsWith(key, "_token")) continue;
    if (value.is_string()) {
      tokens[key] = value.get<std::string>();
    } else if (value.is_object() && value.contains("content") && value["content"].is_string()) {
      tokens[key] = value["content"].get<std::string>();
    }
  }
  return tokens;
}

absl::Status TurnError(size_t message, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("the turn of the assistant in message ", message + 1,
                   " cannot be told in the template's text: ", why,
                   "; use a template that marks turns with {% generation %}"));
}

}  // namespace

absl::StatusOr<ModelChatTemplate> ModelChatTemplate::Open(const std::string& folder,
                                                          const std::string& name) {
  const std::string config_file = folder + "/tokenizer_config.json";
  const std::string template_file = folder + "/chat_template.jinja";
  std::error_code error;
  Json config = Json::object();
  if (fs::exists(config_file, error)) {
    MUSTER_ASSIGN_OR_RETURN(const FileContent file, FileContent::Open(config_file));
    MUSTER_ASSIGN_OR_RETURN(config,
                            ParseJson(file.bytes(), config_file, "a tokenizer_config.json"));
    if (!config.is_object()) {
      return absl::InvalidArgumentError(config_file + " is no JSON object");
    }
  }
  std::string text, origin;
  if (name == kDefault && fs::exists(template_file, error)) {
    MUSTER_ASSIGN_OR_RETURN(const FileContent file, FileContent::Open(template_file));
    text = std::string(file.bytes());
    origin = template_file;
  } else {
    MUSTER_ASSIGN_OR_RETURN(text, TemplateIn(config, folder, name));
    origin = config_file;
  }
  absl::StatusOr<ChatTemplate> parsed = ChatTemplate::Parse(text);
  if (!parsed.ok()) {
    return absl::Status(parsed.status().code(),
                        absl::StrCat(origin, ": ", std::string(parsed.status().message())));
  }
  nlohmann::ordered_json tokens = TokensIn(config);
  const uint64_t fingerprint = Fingerprint(text, Fingerprint(DumpJson(tokens)));
  return ModelChatTemplate(*std::move(parsed), std::move(text), std::move(tokens), fingerprint);
}

absl::StatusOr<RenderedChat> ModelChatTemplate::Render(nlohmann::ordered_json chat,
                                                       ChatEnd end) const {
  nlohmann::ordered_json values = tokens_;
  values["tools"] = nullptr;
  values["documents"] = nullptr;
  values["add_generation_prompt"] = end == ChatEnd::kAsksForAnswer;
  if (chat.is_array()) {
    values["messages"] = std::move(chat);
  } else if (chat.is_object() && chat.contains("messages")) {
    for (auto& [key, value] : chat.items()) values[key] = std::move(value);
  } else {
    return absl::InvalidArgumentError(
        "a chat is a list of messages, or an object with \"messages\"; a message has \"role\" and "
        "\"content\"");
  }
  return chat_template_.Render(values);
}

absl::StatusOr<RenderedChat> ModelChatTemplate::RenderToLearn(nlohmann::ordered_json chat) const {
  MUSTER_ASSIGN_OR_RETURN(RenderedChat whole, Render(chat, ChatEnd::kAsItIs));
  if (marks_generation()) return whole;
  nlohmann::ordered_json& messages = chat.is_array() ? chat : chat["messages"];
  if (!messages.is_array()) {
    return absl::InvalidArgumentError("the chat's messages are no list");
  }
  const nlohmann::ordered_json all = std::exchange(messages, nlohmann::ordered_json::array());
  for (size_t i = 0; i < all.size(); ++i) {
    const bool is_assistants =
        all[i].is_object() && all[i].contains("role") && all[i]["role"] == "assistant";
    absl::StatusOr<RenderedChat> before = RenderedChat();
    if (is_assistants) before = Render(chat, ChatEnd::kAsksForAnswer);
    messages.push_back(all[i]);
    if (!is_assistants) continue;
    if (!before.ok()) return TurnError(i, std::string(before.status().message()));
    absl::StatusOr<RenderedChat> after = RenderedChat();
    if (i + 1 < all.size()) {
      after = Render(chat, ChatEnd::kAsItIs);
      if (!after.ok()) return TurnError(i, std::string(after.status().message()));
    }
    const std::string& until = i + 1 < all.size() ? after->text : whole.text;
    if (!absl::StartsWith(whole.text, before->text)) {
      return TurnError(i, "the chat does not begin as the messages before it do");
    }
    if (!absl::StartsWith(whole.text, until)) {
      return TurnError(i, "the chat does not begin as the messages up to it do");
    }
    if (until.size() > before->text.size()) {
      whole.generated.push_back({before->text.size(), until.size()});
    }
  }
  return whole;
}

}  // namespace muster

#include "common/documents/json_documents.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/text/data_error.h"

namespace muster {
namespace {

using Json = nlohmann::ordered_json;

// Names of a value's fields that an error tells.
constexpr size_t kNamesTold = 8;

bool HasText(const Json& value, const char* field) {
  return value.contains(field) && value[field].is_string();
}

bool HasList(const Json& value, const char* field) {
  return value.contains(field) && value[field].is_array();
}

std::string FieldsOf(const Json& value) {
  std::vector<std::string> names;
  for (const auto& [name, unused] : value.items()) names.push_back(Quote(name));
  std::sort(names.begin(), names.end());
  if (names.size() > kNamesTold) {
    names.resize(kNamesTold);
    names.push_back("…");
  }
  return names.empty() ? "none" : absl::StrJoin(names, ", ");
}

// Returns the role that chat templates know for the name that a conversation has for it; empty:
// none.
std::string RoleOf(absl::string_view name) {
  if (name == "human" || name == "user") return "user";
  if (name == "gpt" || name == "assistant" || name == "model" || name == "bot") return "assistant";
  if (name == "system" || name == "tool") return std::string(name);
  return "";
}

// Returns the list of messages with "role" and "content" in place of "from" and "value".
absl::StatusOr<Json> MessagesIn(Json list) {
  if (list.empty()) return absl::InvalidArgumentError("the chat has no messages");
  int number = 0;
  for (Json& message : list) {
    ++number;
    if (message.is_object() && !message.contains("role") && message.contains("from") &&
        message["from"].is_string() && message.contains("value")) {
      const std::string role = RoleOf(message["from"].get<std::string>());
      if (role.empty()) {
        return absl::InvalidArgumentError(absl::StrCat("message ", number, " is from ",
                                                       Quote(message["from"].get<std::string>()),
                                                       "; expected human, gpt, system or tool"));
      }
      message = {{"role", role}, {"content", message["value"]}};
    }
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string()) {
      return absl::InvalidArgumentError(
          absl::StrCat("message ", number, " has no \"role\"; expected an object with \"role\" ",
                       "and \"content\", or with \"from\" and \"value\""));
    }
  }
  return list;
}

// Returns a value's chat as templates take it. `field` has the messages; empty: the value does.
absl::StatusOr<Json> ChatIn(Json value, const std::string& field) {
  Json chat = Json::object();
  if (field.empty()) {
    MUSTER_ASSIGN_OR_RETURN(chat["messages"], MessagesIn(std::move(value)));
    return chat;
  }
  MUSTER_ASSIGN_OR_RETURN(chat["messages"], MessagesIn(std::move(value[field])));
  for (const char* name : {"tools", "documents"}) {
    if (value.contains(name)) chat[name] = std::move(value[name]);
  }
  if (value.contains("chat_template_kwargs") && value["chat_template_kwargs"].is_object()) {
    for (auto& [name, kwarg] : value["chat_template_kwargs"].items()) {
      if (name != "messages") chat[name] = std::move(kwarg);
    }
  }
  return chat;
}

// Returns a chat as people read it, without a template.
RenderedChat PlainChat(const Json& chat) {
  RenderedChat plain;
  for (const Json& message : chat["messages"]) {
    const std::string role = message["role"].get<std::string>();
    absl::StrAppend(&plain.text, plain.text.empty() ? "" : "\n", role, ": ");
    const size_t begin = plain.text.size();
    if (message.contains("content")) {
      const Json& content = message["content"];
      plain.text += content.is_string() ? content.get<std::string>() : content.dump();
    }
    if (role == "assistant" && plain.text.size() > begin) {
      plain.generated.push_back({begin, plain.text.size()});
    }
  }
  return plain;
}

// Appends the chat's text in parts.
void CutAt(const RenderedChat& chat, std::vector<TextPart>& parts) {
  const absl::string_view text = chat.text;
  size_t done = 0;
  const auto add = [&](size_t end, Trained trained) {
    if (end > done) parts.push_back({text.substr(done, end - done), trained});
    done = end;
  };
  for (const ByteRange& range : chat.generated) {
    add(range.begin, Trained::kNo);
    add(range.end, Trained::kYes);
  }
  add(text.size(), Trained::kNo);
}

}  // namespace

absl::Status JsonDocuments::Read(Json value, std::vector<TextPart>& parts) {
  parts.clear();
  value_ = std::move(value);
  if (!layout_.has_value()) {
    MUSTER_ASSIGN_OR_RETURN(layout_, LayoutOf(value_));
  }
  switch (layout_->kind) {
    case Layout::Kind::kText:
      return Text(parts);
    case Layout::Kind::kPair:
      return Pair(parts);
    default:
      return Chat(parts);
  }
}

TextStart JsonDocuments::start() const {
  return layout_->kind == Layout::Kind::kChat ? TextStart::kText : TextStart::kDocument;
}

// Returns the layout of which this is the first value, or a message why there is none.
absl::StatusOr<JsonDocuments::Layout> JsonDocuments::LayoutOf(const Json& value) const {
  const std::string& field = options_.field;
  if (value.is_array() && field.empty()) return Layout{Layout::Kind::kChat, ""};
  if (!value.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat("the ", unit_, " is a JSON ", value.type_name(),
                                                   "; expected ", kExpectedJson));
  }
  if (!field.empty()) {
    if (HasText(value, field.c_str())) return Layout{Layout::Kind::kText, field};
    if (HasList(value, field.c_str())) return Layout{Layout::Kind::kChat, field};
    return absl::InvalidArgumentError(
        absl::StrCat("the ", unit_, " has no field ", Quote(field),
                     " with a text or a list of messages; its fields: ", FieldsOf(value)));
  }
  std::vector<Layout> found;
  std::vector<std::string> names;
  const auto add = [&](bool is_there, Layout::Kind kind, const char* name) {
    if (!is_there) return;
    found.push_back({kind, name});
    names.push_back(name);
  };
  add(HasList(value, "messages"), Layout::Kind::kChat, "messages");
  add(HasList(value, "conversations"), Layout::Kind::kChat, "conversations");
  add(HasText(value, "prompt") && HasText(value, "completion"), Layout::Kind::kPair, "prompt");
  add(HasText(value, "text"), Layout::Kind::kText, "text");
  if (found.size() == 1) return found[0];
  if (found.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the ", unit_, " has none of the fields that documents are known by; expected ",
        kExpectedJson,
        ", or name the field with the text: --field NAME; its fields: ", FieldsOf(value)));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the ", unit_, " has several documents: ", absl::StrJoin(names, ", "),
                   "; name the field to take: --field NAME"));
}

// Returns the text of a field, which the first value had, too.
absl::StatusOr<absl::string_view> JsonDocuments::TextIn(const std::string& field) const {
  if (value_.is_object() && HasText(value_, field.c_str())) {
    return absl::string_view(value_[field].get_ref<const std::string&>());
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the ", unit_, " has no text ", Quote(field), ", but the file's first one has"));
}

absl::Status JsonDocuments::Text(std::vector<TextPart>& parts) const {
  MUSTER_ASSIGN_OR_RETURN(const absl::string_view text, TextIn(layout_->field));
  if (!text.empty()) parts.push_back({text, Trained::kYes});
  return absl::OkStatus();
}

absl::Status JsonDocuments::Pair(std::vector<TextPart>& parts) const {
  MUSTER_ASSIGN_OR_RETURN(const absl::string_view prompt, TextIn("prompt"));
  MUSTER_ASSIGN_OR_RETURN(const absl::string_view completion, TextIn("completion"));
  if (prompt.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("the prompt is empty, so all of the ", unit_,
                                                   " would be learned; leave such ", unit_,
                                                   "s out, or name whole texts \"text\""));
  }
  if (completion.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the completion is empty, so there is nothing to learn; leave such ", unit_, "s out"));
  }
  parts = {{prompt, Trained::kNo}, {completion, Trained::kYes}};
  return absl::OkStatus();
}

absl::Status JsonDocuments::Chat(std::vector<TextPart>& parts) {
  const std::string& field = layout_->field;
  if (field.empty() ? !value_.is_array() : !value_.is_object() || !HasList(value_, field.c_str())) {
    return absl::InvalidArgumentError(
        field.empty() ? "the line is no list of messages, but the file's first one is"
                      : absl::StrCat("the ", unit_, " has no list ", Quote(field),
                                     ", but the file's first one has"));
  }
  MUSTER_ASSIGN_OR_RETURN(Json chat, ChatIn(std::move(value_), field));
  if (options_.chat_template == nullptr) {
    MUSTER_RETURN_IF_ERROR(options_.why_no_template);
    chat_ = PlainChat(chat);
  } else {
    MUSTER_ASSIGN_OR_RETURN(chat_, options_.chat_template->RenderToLearn(std::move(chat)));
  }
  if (chat_.generated.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the chat has nothing to learn: no message is the assistant's, or the template "
        "shows none; leave such ",
        unit_, "s out"));
  }
  CutAt(chat_, parts);
  if (parts.size() == 1) {
    return absl::InvalidArgumentError(
        "all of the chat would be learned; begin it with a message of the user, or leave it out");
  }
  return absl::OkStatus();
}

}  // namespace muster

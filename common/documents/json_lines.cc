#include "common/documents/json_lines.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/chat_template/model_chat_template.h"
#include "common/documents/line_reader.h"
#include "common/files/parse_json.h"
#include "common/text/data_error.h"
#include "common/text/utf8.h"

namespace muster {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr char kExpected[] =
    "JSON with \"text\", with \"prompt\" and \"completion\", with \"messages\" or with "
    "\"conversations\" on each line";
// Names of a line's fields that an error tells.
constexpr size_t kNamesTold = 8;

// Every line of a file is laid out like this.
struct Layout {
  enum class Kind { kText, kPair, kChat };
  Kind kind = Kind::kText;
  // The field of the text or the messages; empty: the line is the list of messages.
  std::string field;
};

bool HasText(const Json& value, const char* field) {
  return value.contains(field) && value[field].is_string();
}

bool HasList(const Json& value, const char* field) {
  return value.contains(field) && value[field].is_array();
}

std::string FieldsOf(const Json& value) {
  std::vector<std::string> names;
  for (const auto& [name, unused] : value.items()) {
    if (names.size() == kNamesTold) {
      names.push_back("…");
      break;
    }
    names.push_back(Quote(name));
  }
  return names.empty() ? "none" : absl::StrJoin(names, ", ");
}

// Returns the layout of which this is the first line, or a message why there is none.
absl::StatusOr<Layout> LayoutOf(const Json& value, const std::string& field) {
  if (value.is_array() && field.empty()) return Layout{Layout::Kind::kChat, ""};
  if (!value.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the line is a JSON ", value.type_name(), "; expected ", kExpected));
  }
  if (!field.empty()) {
    if (HasText(value, field.c_str())) return Layout{Layout::Kind::kText, field};
    if (HasList(value, field.c_str())) return Layout{Layout::Kind::kChat, field};
    return absl::InvalidArgumentError(
        absl::StrCat("the line has no field ", Quote(field),
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
        "the line has none of the fields that documents are known by; expected ", kExpected,
        ", or name the field with the text: --field NAME; its fields: ", FieldsOf(value)));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the line has several documents: ", absl::StrJoin(names, ", "),
                   "; name the field to take: --field NAME"));
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
absl::StatusOr<OrderedJson> MessagesIn(OrderedJson list) {
  if (list.empty()) return absl::InvalidArgumentError("the chat has no messages");
  int number = 0;
  for (OrderedJson& message : list) {
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

// Returns a line's chat as templates take it.
absl::StatusOr<OrderedJson> ChatIn(OrderedJson value, const Layout& layout) {
  OrderedJson chat = OrderedJson::object();
  if (layout.field.empty()) {
    MUSTER_ASSIGN_OR_RETURN(chat["messages"], MessagesIn(std::move(value)));
    return chat;
  }
  MUSTER_ASSIGN_OR_RETURN(chat["messages"], MessagesIn(std::move(value[layout.field])));
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
RenderedChat PlainChat(const OrderedJson& chat) {
  RenderedChat plain;
  for (const OrderedJson& message : chat["messages"]) {
    const std::string role = message["role"].get<std::string>();
    absl::StrAppend(&plain.text, plain.text.empty() ? "" : "\n", role, ": ");
    const size_t begin = plain.text.size();
    if (message.contains("content")) {
      const OrderedJson& content = message["content"];
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

// Makes the documents of one file's lines.
class Lines {
 public:
  explicit Lines(const JsonLinesOptions& options) : options_(options) {}

  // Replaces `parts` by the document of a line; none: it is empty. The parts are valid until the
  // next call. `origin` is file and line. Errors do not name it, except ParseJson's.
  absl::Status Read(absl::string_view line, const std::string& origin,
                    std::vector<TextPart>& parts) {
    parts.clear();
    if (!IsUtf8(line)) {
      return absl::InvalidArgumentError("the line is not UTF-8; convert the file, with iconv say");
    }
    MUSTER_ASSIGN_OR_RETURN(value_, ParseJson(line, origin, kExpected));
    if (!layout_.has_value()) {
      MUSTER_ASSIGN_OR_RETURN(layout_, LayoutOf(value_, options_.field));
    }
    switch (layout_->kind) {
      case Layout::Kind::kText:
        return Text(parts);
      case Layout::Kind::kPair:
        return Pair(parts);
      default:
        // The first parser has bounded what this one takes, which keeps the order of fields.
        return Chat(OrderedJson::parse(line.begin(), line.end()), parts);
    }
  }

  // Returns how documents begin. REQUIRES: a line was read.
  TextStart start() const {
    return layout_->kind == Layout::Kind::kText || layout_->kind == Layout::Kind::kPair
               ? TextStart::kDocument
               : TextStart::kText;
  }

  // Returns whether a line was read, which tells how all are laid out.
  bool knows_layout() const { return layout_.has_value(); }

 private:
  // Returns the text of a field, which the first line had, too.
  absl::StatusOr<absl::string_view> TextIn(const std::string& field) const {
    if (value_.is_object() && HasText(value_, field.c_str())) {
      return absl::string_view(value_[field].get_ref<const std::string&>());
    }
    return absl::InvalidArgumentError(
        absl::StrCat("the line has no text ", Quote(field), ", but the file's first one has"));
  }

  absl::Status Text(std::vector<TextPart>& parts) const {
    MUSTER_ASSIGN_OR_RETURN(const absl::string_view text, TextIn(layout_->field));
    if (!text.empty()) parts.push_back({text, Trained::kYes});
    return absl::OkStatus();
  }

  absl::Status Pair(std::vector<TextPart>& parts) const {
    MUSTER_ASSIGN_OR_RETURN(const absl::string_view prompt, TextIn("prompt"));
    MUSTER_ASSIGN_OR_RETURN(const absl::string_view completion, TextIn("completion"));
    if (prompt.empty()) {
      return absl::InvalidArgumentError(
          "the prompt is empty, so all of the line would be learned; leave such lines out, or name "
          "whole texts \"text\"");
    }
    if (completion.empty()) {
      return absl::InvalidArgumentError(
          "the completion is empty, so there is nothing to learn; leave such lines out");
    }
    parts = {{prompt, Trained::kNo}, {completion, Trained::kYes}};
    return absl::OkStatus();
  }

  absl::Status Chat(OrderedJson value, std::vector<TextPart>& parts) {
    const std::string& field = layout_->field;
    if (field.empty() ? !value.is_array()
                      : !value.is_object() || !value.contains(field) || !value[field].is_array()) {
      return absl::InvalidArgumentError(
          field.empty() ? "the line is no list of messages, but the file's first one is"
                        : absl::StrCat("the line has no list ", Quote(field),
                                       ", but the file's first one has"));
    }
    MUSTER_ASSIGN_OR_RETURN(OrderedJson chat, ChatIn(std::move(value), *layout_));
    if (options_.chat_template == nullptr) {
      MUSTER_RETURN_IF_ERROR(options_.why_no_template);
      chat_ = PlainChat(chat);
    } else {
      MUSTER_ASSIGN_OR_RETURN(chat_, options_.chat_template->RenderToLearn(std::move(chat)));
    }
    if (chat_.generated.empty()) {
      return absl::InvalidArgumentError(
          "the chat has nothing to learn: no message is the assistant's, or the template shows "
          "none; leave such lines out");
    }
    CutAt(chat_, parts);
    if (parts.size() == 1) {
      return absl::InvalidArgumentError(
          "all of the chat would be learned; begin it with a message of the user, or leave it out");
    }
    return absl::OkStatus();
  }

  const JsonLinesOptions& options_;
  std::optional<Layout> layout_;
  // The parts of the last document lie in these.
  Json value_;
  RenderedChat chat_;
};

}  // namespace

absl::Status ForEachJsonLine(const std::string& path, const JsonLinesOptions& options,
                             TakeDocument take) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<LineReader> reader, LineReader::Open(path));
  Lines lines(options);
  std::vector<TextPart> parts;
  uint64_t told = 0;
  absl::string_view line;
  for (;;) {
    MUSTER_ASSIGN_OR_RETURN(const bool there, reader->Next(line));
    if (options.progress && reader->bytes_read() > told) {
      options.progress(reader->bytes_read() - told);
      told = reader->bytes_read();
    }
    if (!there) return absl::OkStatus();
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    const bool skipped = static_cast<uint64_t>(reader->line()) <= options.skip;
    if (skipped && lines.knows_layout()) continue;
    const std::string origin = absl::StrCat(path, ":", reader->line());
    if (const absl::Status status = lines.Read(line, origin, parts); !status.ok()) {
      const std::string message(status.message());
      const std::string cut = reader->ended() ? "" : " (the last line, without an end)";
      if (absl::StartsWith(message, origin)) {
        return absl::Status(status.code(), absl::StrCat(message, cut));
      }
      return absl::Status(status.code(), absl::StrCat(origin, ": ", message, cut));
    }
    if (parts.empty() || skipped) continue;
    Document document;
    document.path = path;
    document.line = reader->line();
    document.parts = parts;
    document.start = lines.start();
    MUSTER_RETURN_IF_ERROR(take(document));
  }
}

}  // namespace muster

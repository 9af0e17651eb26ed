#ifndef MUSTER_COMMON_DOCUMENTS_JSON_DOCUMENTS_H_
#define MUSTER_COMMON_DOCUMENTS_JSON_DOCUMENTS_H_

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/chat_template/model_chat_template.h"
#include "common/documents/document.h"

namespace muster {

// Says how documents are made of JSON values, from lines of JSON or rows of Parquet.
struct JsonDocumentOptions {
  // The field that has a document: a text, or the messages of a chat. Empty: the one that is known
  // by its name, see JsonDocuments.
  std::string field;
  // Makes the text of chats. Null: chats are refused with `why_no_template`, or, if that is OK,
  // each message is its role and what it says, for people to look at.
  const ModelChatTemplate* chat_template = nullptr;
  absl::Status why_no_template;
  // Lines or rows at the beginning of the file that are left out; the first line with a value tells
  // the kind all the same.
  uint64_t skip = 0;
  // Told how many more bytes of the file were read. May be empty.
  std::function<void(uint64_t bytes)> progress;
};

// Says what documents may look like, for errors about JSON lines.
inline constexpr char kExpectedJson[] =
    "JSON with \"text\", with \"prompt\" and \"completion\", with \"messages\" or with "
    "\"conversations\" on each line";

// Makes the documents of one file's values:
//
//   {"text": "…"}                           all of it is to be learned
//   {"prompt": "…", "completion": "…"}      the completion is to be learned
//   {"messages": [{"role": "user", "content": "…"}, …]}, or that list alone
//   {"conversations": [{"from": "human", "value": "…"}, …]}
//                                           the assistant's turns are (ModelChatTemplate)
//
// All values are of the kind of the first one; other fields are left out, except those that chat
// templates read: tools, documents, chat_template_kwargs. Empty texts are skipped. A document with
// a prompt or with messages is learned in part: where there is nothing to learn, or nothing before
// it, the value is refused. Not thread-safe.
class JsonDocuments {
 public:
  // Names what a value is in its file, for errors.
  enum class Unit { kLine, kRow };

  // `options` outlive this object.
  JsonDocuments(const JsonDocumentOptions& options, Unit unit)
      : options_(options), unit_(unit == Unit::kLine ? "line" : "row") {}

  // Replaces `parts` by the document of a value; none: it is empty. The parts are valid until the
  // next call. InvalidArgument, without file and line: the value is not as above.
  absl::Status Read(nlohmann::ordered_json value, std::vector<TextPart>& parts);

  // Returns how documents begin. REQUIRES: a value was read.
  TextStart start() const;

  // Returns whether a value was read, which tells how all are laid out.
  bool knows_layout() const { return layout_.has_value(); }

 private:
  using Json = nlohmann::ordered_json;

  // Every value of a file is laid out like this.
  struct Layout {
    enum class Kind { kText, kPair, kChat };
    Kind kind = Kind::kText;
    // The field of the text or the messages; empty: the value is the list of messages.
    std::string field;
  };

  absl::StatusOr<Layout> LayoutOf(const Json& value) const;
  absl::StatusOr<absl::string_view> TextIn(const std::string& field) const;
  absl::Status Text(std::vector<TextPart>& parts) const;
  absl::Status Pair(std::vector<TextPart>& parts) const;
  absl::Status Chat(std::vector<TextPart>& parts);

  const JsonDocumentOptions& options_;
  const absl::string_view unit_;
  std::optional<Layout> layout_;
  // The parts of the last document lie in these.
  Json value_;
  RenderedChat chat_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_DOCUMENTS_JSON_DOCUMENTS_H_

#ifndef MUSTER_COMMON_DOCUMENTS_JSON_LINES_H_
#define MUSTER_COMMON_DOCUMENTS_JSON_LINES_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "common/documents/document.h"

namespace muster {

class ModelChatTemplate;

struct JsonLinesOptions {
  // The field that has a line's document: a text, or the messages of a chat. Empty: the one that is
  // known by its name, see ForEachJsonLine.
  std::string field;
  // Makes the text of chats. Null: chats are refused with `why_no_template`, or, if that is OK,
  // each message is its role and what it says, for people to look at.
  const ModelChatTemplate* chat_template = nullptr;
  absl::Status why_no_template;
  // Lines at the beginning of the file that are left out; the first one with a value tells the kind
  // all the same.
  uint64_t skip = 0;
  // Told how many more bytes of the file were read. May be empty.
  std::function<void(uint64_t bytes)> progress;
};

// Gives `take` the documents of a file with a JSON value on each line, which may be compressed:
//
//   {"text": "…"}                           all of it is to be learned
//   {"prompt": "…", "completion": "…"}      the completion is to be learned
//   {"messages": [{"role": "user", "content": "…"}, …]}, or that list alone
//   {"conversations": [{"from": "human", "value": "…"}, …]}
//                                           the assistant's turns are (ModelChatTemplate)
//
// All lines are of the kind of the first one; other fields are left out, except those that chat
// templates read: tools, documents, chat_template_kwargs. Blank lines and empty texts are skipped.
// A document with a prompt or with messages is learned in part: where there is nothing to learn, or
// nothing before it, the line is refused.
//
// InvalidArgument, with file and line: a line is no JSON, not UTF-8, too long, or not as above.
// Other errors are UnpackedFile's, with the line. The first error of `take` ends the call.
absl::Status ForEachJsonLine(const std::string& path, const JsonLinesOptions& options,
                             TakeDocument take);

}  // namespace muster

#endif  // MUSTER_COMMON_DOCUMENTS_JSON_LINES_H_

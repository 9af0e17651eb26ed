#ifndef MUSTER_COMMON_DOCUMENTS_DOCUMENT_H_
#define MUSTER_COMMON_DOCUMENTS_DOCUMENT_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/tokenizer/files/trained_bits.h"
#include "common/tokenizer/tokenizer.h"

namespace muster {

// A part of a document's text, all of which a model is to learn, or nothing.
struct TextPart {
  absl::string_view text;
  Trained trained = Trained::kYes;
};

// A place between the documents of a source.
struct DocumentPosition {
  // Files before it, or of text files documents.
  uint64_t files = 0;
  // The number of lines or rows before it in the next file, or of Documents of tokens.
  uint64_t inside = 0;
};

// A document as its file has it: text, or tokens. Whoever is given one may use it until it returns.
struct Document {
  // The file, and the line or row in it, counted from 1; 0: the file is the document.
  absl::string_view path;
  int64_t line = 0;
  // The text, in parts that are not empty.
  absl::Span<const TextPart> parts;
  // The beginning of the text; chats bring the tokens that stand before a document themselves.
  TextStart start = TextStart::kDocument;
  // The tokens, if there is no text.
  absl::Span<const int32_t> tokens;
  // True: the tokens or the text of the next Document continue this one. Large documents come in
  // several.
  bool continues = false;
  // The place behind this, set by ForEachDocument.
  DocumentPosition next;
};

using TakeDocument = absl::FunctionRef<absl::Status(const Document& document)>;

}  // namespace muster

#endif  // MUSTER_COMMON_DOCUMENTS_DOCUMENT_H_

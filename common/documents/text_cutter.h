#ifndef MUSTER_COMMON_DOCUMENTS_TEXT_CUTTER_H_
#define MUSTER_COMMON_DOCUMENTS_TEXT_CUTTER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/documents/document.h"
#include "common/tokenizer/tokenizer.h"

namespace muster {

// Cuts texts into pieces across whose ends no token lies, so that the pieces' tokens are the
// texts'. A text may come in several Documents, which end anywhere. Not thread-safe.
class TextCutter {
 public:
  struct Piece {
    absl::string_view text;
    // Bytes of the whole text up to the piece's end.
    uint64_t end = 0;
    // The piece's place: whether the text begins with it, and whether it is the last one.
    TextStart start = TextStart::kDocument;
    bool last = false;
  };

  // Pieces have about `piece_bytes` bytes. Of the first text, `skip` bytes are left out.
  TextCutter(const Tokenizer& tokenizer, size_t piece_bytes, uint64_t skip)
      : tokenizer_(tokenizer), piece_bytes_(piece_bytes), skip_(skip) {}

  // Gives `take` the pieces of a Document of one part. What lies behind the last place that can be
  // known for an end is kept for the text's next Document. The first error of `take` ends the call.
  absl::Status Cut(const Document& document,
                   absl::FunctionRef<absl::Status(const Piece& piece)> take);

 private:
  const Tokenizer& tokenizer_;
  const size_t piece_bytes_;
  uint64_t skip_;
  // Bytes of the text before rest_, and those that are kept of it.
  uint64_t before_ = 0;
  std::string rest_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_DOCUMENTS_TEXT_CUTTER_H_

#ifndef MUSTER_COMMON_JOB_TEXT_TEXT_NODE_H_
#define MUSTER_COMMON_JOB_TEXT_TEXT_NODE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

// A place in a text; line and column count from 1. Line 0: not in a file.
struct TextPosition {
  int line = 0;
  int column = 0;
};

struct TextEntry;

// One value of a job's text, in any notation.
struct TextNode {
  enum class Kind {
    // A name without a value.
    kNothing,
    kValue,
    kList,
    kGroup,
  };
  Kind kind = Kind::kNothing;
  TextPosition position;
  // A value as it is written, without quotes.
  std::string value;
  // True if the value may be a text: it is in quotes, or the notation needs none.
  bool may_be_text = false;
  std::vector<TextNode> items;
  // In the file's order.
  std::vector<TextEntry> entries;
  // True in a notation that gives a field's name once for each element of a list, and writes an
  // entry of a map as a group with `key` and `value`.
  bool names_repeat = false;
};

struct TextEntry {
  std::string name;
  TextPosition position;
  TextNode node;
};

// Returns InvalidArgument with "origin:line:column: message".
absl::Status TextError(absl::string_view origin, const TextPosition& position,
                       absl::string_view message);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_TEXT_TEXT_NODE_H_

#ifndef MUSTER_COMMON_FILES_PARSE_JSON_H_
#define MUSTER_COMMON_FILES_PARSE_JSON_H_

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// Limits far above any file that programs here read. A value takes up to 100 bytes of memory for
// two in the file; a tokenizer of 256 thousand tokens has 1.5 million values.
inline constexpr size_t kMostJsonDepth = 64;
inline constexpr size_t kMostJsonValues = size_t{1} << 22;

// Parses JSON from a file that anybody may have written. More values than kMostJsonValues, and
// nesting deeper than kMostJsonDepth, are refused before anything is built, so callers may go over
// the value by recursion (to write it into a message, say). `origin` names the file in errors,
// `expected` says what it should have been. InvalidArgument: the text is no JSON, too large, or too
// deep.
absl::StatusOr<nlohmann::json> ParseJson(absl::string_view text, const std::string& origin,
                                         absl::string_view expected);

// Does the same, and keeps the order of an object's fields.
absl::StatusOr<nlohmann::ordered_json> ParseOrderedJson(absl::string_view text,
                                                        const std::string& origin,
                                                        absl::string_view expected);

}  // namespace muster

#endif  // MUSTER_COMMON_FILES_PARSE_JSON_H_

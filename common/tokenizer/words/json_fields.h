#ifndef MUSTER_COMMON_TOKENIZER_WORDS_JSON_FIELDS_H_
#define MUSTER_COMMON_TOKENIZER_WORDS_JSON_FIELDS_H_

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace muster {

// Shared by the readers of tokenizers' files. `origin` names the file in errors, which are
// InvalidArgument. They say of what kind a value is and quote nothing of it
// (common/text/length_of.h).

// Returns the error that a field has a value of this kind; `expected` says what is supported. A
// name that many files use, such as "WordPiece", counts as a kind.
absl::Status RefuseField(const std::string& origin, absl::string_view field,
                         const nlohmann::json& value, absl::string_view expected);

// Returns the member of an object; null if there is no such member, or no object.
const nlohmann::json& MemberOf(const nlohmann::json& object, const std::string& name);

// Returns the member "type" of an object; empty if there is none.
std::string TypeOf(const nlohmann::json& value);

// Returns true if an option's value means off: null, false or "".
bool IsOff(const nlohmann::json& value);

// Returns an option that is on or off. `field` names it in errors.
absl::StatusOr<bool> ParseFlag(const nlohmann::json& value, const std::string& origin,
                               absl::string_view field);

// Returns the names under which vocabularies keep the token that ends a document, most usual first.
absl::Span<const char* const> EndOfTextNames();

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_WORDS_JSON_FIELDS_H_

#include "common/chat_template/values/arguments.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/text/data_error.h"

namespace muster {

absl::StatusOr<std::vector<const Value*>> Arguments::Bind(
    absl::string_view function, const std::vector<absl::string_view>& parameters) const {
  if (positional.size() > parameters.size()) {
    return absl::InvalidArgumentError(absl::StrCat(function, " takes at most ", parameters.size(),
                                                   " arguments, not ", positional.size(),
                                                   "; leave the others out"));
  }
  std::vector<const Value*> bound(parameters.size(), nullptr);
  for (size_t i = 0; i < positional.size(); ++i) bound[i] = &positional[i];
  for (const auto& [name, value] : named) {
    const auto found = std::find(parameters.begin(), parameters.end(), name);
    if (found == parameters.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          function, " has no argument ", Quote(name),
          "; it has: ", parameters.empty() ? "none" : absl::StrJoin(parameters, ", ")));
    }
    const Value*& place = bound[static_cast<size_t>(found - parameters.begin())];
    if (place != nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(function, " is given ", Quote(name), " twice; leave one out"));
    }
    place = &value;
  }
  return bound;
}

absl::StatusOr<std::string> TextOr(const Value* argument, absl::string_view otherwise,
                                   absl::string_view parameter) {
  if (argument == nullptr) return std::string(otherwise);
  if (argument->text() != nullptr) return *argument->text();
  return absl::InvalidArgumentError(
      absl::StrCat("'", parameter, "' is a string, not ", KindOf(*argument), "; give it one"));
}

absl::StatusOr<int64_t> IntegerOr(const Value* argument, int64_t otherwise,
                                  absl::string_view parameter) {
  if (argument == nullptr) return otherwise;
  if (const auto integer = AsInteger(*argument)) return *integer;
  return absl::InvalidArgumentError(
      absl::StrCat("'", parameter, "' is an integer, not ", KindOf(*argument), "; give it one"));
}

bool TruthOr(const Value* argument, bool otherwise) {
  return argument == nullptr ? otherwise : IsTrue(*argument);
}

}  // namespace muster

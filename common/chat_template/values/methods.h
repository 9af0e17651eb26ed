#ifndef MUSTER_COMMON_CHAT_TEMPLATE_VALUES_METHODS_H_
#define MUSTER_COMMON_CHAT_TEMPLATE_VALUES_METHODS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/chat_template/values/arguments.h"
#include "common/chat_template/values/budget.h"
#include "common/chat_template/values/value.h"

namespace muster {

// The methods of strings and dictionaries that a template may call.
const std::vector<std::string>& MethodNames();

// Returns whether Python knows a method of this name of the value's kind, in the subset or not.
bool IsMethodOf(const Value& value, absl::string_view name);

// Fails if the value has no such method.
absl::StatusOr<Value> CallMethod(const Value& value, absl::string_view name,
                                 const Arguments& arguments, Budget& budget);

}  // namespace muster

#endif  // MUSTER_COMMON_CHAT_TEMPLATE_VALUES_METHODS_H_

#ifndef MUSTER_COMMON_CHAT_TEMPLATE_VALUES_PYTHON_REPR_H_
#define MUSTER_COMMON_CHAT_TEMPLATE_VALUES_PYTHON_REPR_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/chat_template/values/budget.h"
#include "common/chat_template/values/value.h"

namespace muster {

// Returns a float as Python prints it: the shortest digits that read back as the same number, 1.0,
// 1e+16, nan.
std::string FloatRepr(double value);

// Python's str(): a string as it is, True, None, lists with repr() of their items; an undefined
// value is nothing. Fails for what has no text that a chat could want: functions, namespaces,
// generators. A string in a list has characters that cannot be seen written out, except that
// code points that Unicode has not assigned stay.
absl::StatusOr<std::string> Str(const Value& value, Budget& budget);

}  // namespace muster

#endif  // MUSTER_COMMON_CHAT_TEMPLATE_VALUES_PYTHON_REPR_H_

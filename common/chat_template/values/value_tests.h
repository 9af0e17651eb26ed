#ifndef MUSTER_COMMON_CHAT_TEMPLATE_VALUES_VALUE_TESTS_H_
#define MUSTER_COMMON_CHAT_TEMPLATE_VALUES_VALUE_TESTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/chat_template/values/arguments.h"
#include "common/chat_template/values/budget.h"
#include "common/chat_template/values/value.h"

namespace muster {

// These may stand after `is`, and be named by select and its like.

// The names, sorted.
const std::vector<std::string>& ValueTestNames();

// Fails for a name that is none of these.
absl::StatusOr<bool> TestValue(absl::string_view name, const Value& value,
                               const Arguments& arguments, Budget& budget);

}  // namespace muster

#endif  // MUSTER_COMMON_CHAT_TEMPLATE_VALUES_VALUE_TESTS_H_

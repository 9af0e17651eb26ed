#ifndef MUSTER_COMMON_CHAT_TEMPLATE_VALUES_SELECTING_FILTERS_H_
#define MUSTER_COMMON_CHAT_TEMPLATE_VALUES_SELECTING_FILTERS_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/chat_template/values/arguments.h"
#include "common/chat_template/values/budget.h"
#include "common/chat_template/values/value.h"

namespace muster {

// Returns whether a filter is one of map, select, reject, selectattr and rejectattr: those that
// apply another filter or a test to each item.
bool IsSelectingFilter(absl::string_view name);

// REQUIRES: IsSelectingFilter.
absl::StatusOr<Value> ApplySelectingFilter(absl::string_view name, const Value& value,
                                           const Arguments& arguments, Budget& budget);

}  // namespace muster

#endif  // MUSTER_COMMON_CHAT_TEMPLATE_VALUES_SELECTING_FILTERS_H_

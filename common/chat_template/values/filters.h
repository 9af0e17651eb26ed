#ifndef MUSTER_COMMON_CHAT_TEMPLATE_VALUES_FILTERS_H_
#define MUSTER_COMMON_CHAT_TEMPLATE_VALUES_FILTERS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/chat_template/values/arguments.h"
#include "common/chat_template/values/budget.h"
#include "common/chat_template/values/value.h"

namespace muster {

// The names of all filters, sorted.
const std::vector<std::string>& FilterNames();

// Returns value | name(arguments). Fails for a name that is no filter.
absl::StatusOr<Value> ApplyFilter(absl::string_view name, const Value& value,
                                  const Arguments& arguments, Budget& budget);

}  // namespace muster

#endif  // MUSTER_COMMON_CHAT_TEMPLATE_VALUES_FILTERS_H_

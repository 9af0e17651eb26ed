#ifndef MUSTER_COMMON_CHAT_TEMPLATE_VALUES_ARGUMENTS_H_
#define MUSTER_COMMON_CHAT_TEMPLATE_VALUES_ARGUMENTS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/chat_template/values/budget.h"
#include "common/chat_template/values/value.h"

namespace muster {

// A filter, a test, a method or a function is called with these.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<absl::string_view, Value>> named;

  // Returns an argument for each parameter, in this order; null where none was given. Fails if
  // there is one too many, one twice, or one of another name. The pointers are this object's.
  absl::StatusOr<std::vector<const Value*>> Bind(
      absl::string_view function, const std::vector<absl::string_view>& parameters) const;
};

// Return the argument, or what stands for one that is not given. Fail if it is of another kind.
absl::StatusOr<std::string> TextOr(const Value* argument, absl::string_view otherwise,
                                   absl::string_view parameter);
absl::StatusOr<int64_t> IntegerOr(const Value* argument, int64_t otherwise,
                                  absl::string_view parameter);
bool TruthOr(const Value* argument, bool otherwise);

}  // namespace muster

#endif  // MUSTER_COMMON_CHAT_TEMPLATE_VALUES_ARGUMENTS_H_

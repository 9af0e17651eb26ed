#include "common/chat_template/values/selecting_filters.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "common/chat_template/values/filters.h"
#include "common/chat_template/values/operators.h"
#include "common/chat_template/values/value_tests.h"

namespace muster {
namespace {

// Returns what a path such as "function.name" leads to; a number is an index.
absl::StatusOr<Value> AtPath(Value value, const std::string& path, Budget& budget) {
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(path, '.'))) {
    int64_t index = 0;
    const bool digits = !part.empty() && std::all_of(part.begin(), part.end(), absl::ascii_isdigit);
    const Value key =
        digits && absl::SimpleAtoi(part, &index) ? Value(index) : Value(std::string(part));
    MUSTER_ASSIGN_OR_RETURN(value, Item(value, key, budget));
  }
  return value;
}

// Takes the first of the arguments, which names a test, a filter or an attribute.
absl::StatusOr<std::string> TakeName(absl::string_view filter, Arguments& arguments) {
  if (arguments.positional.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the filter '", filter, "' lacks its first argument; name what it asks for"));
  }
  MUSTER_ASSIGN_OR_RETURN(std::string name, TextOr(&arguments.positional[0], "", filter));
  arguments.positional.erase(arguments.positional.begin());
  return name;
}

absl::StatusOr<std::vector<Value>> MapAttribute(const std::vector<Value>& items,
                                                const Arguments& arguments, Budget& budget) {
  MUSTER_ASSIGN_OR_RETURN(const auto bound, arguments.Bind("map", {"attribute", "default"}));
  MUSTER_ASSIGN_OR_RETURN(const std::string path, TextOr(bound[0], "", "attribute"));
  std::vector<Value> mapped;
  for (const Value& item : items) {
    MUSTER_RETURN_IF_ERROR(budget.Spend());
    MUSTER_ASSIGN_OR_RETURN(Value found, AtPath(item, path, budget));
    const bool missing = found.Is<Undefined>() && bound[1] != nullptr;
    mapped.push_back(missing ? *bound[1] : std::move(found));
  }
  return mapped;
}

absl::StatusOr<std::vector<Value>> MapFilter(const std::vector<Value>& items, Arguments arguments,
                                             Budget& budget) {
  MUSTER_ASSIGN_OR_RETURN(const std::string name, TakeName("map", arguments));
  // One filter within another could go on as deep as there are arguments.
  if (IsSelectingFilter(name)) {
    return absl::InvalidArgumentError(absl::StrCat("map takes no '", name, "'; write a for loop"));
  }
  std::vector<Value> mapped;
  for (const Value& item : items) {
    MUSTER_RETURN_IF_ERROR(budget.Spend());
    MUSTER_ASSIGN_OR_RETURN(mapped.emplace_back(), ApplyFilter(name, item, arguments, budget));
  }
  return mapped;
}

absl::StatusOr<std::vector<Value>> Select(absl::string_view filter, const std::vector<Value>& items,
                                          Arguments arguments, Budget& budget) {
  const bool by_attribute = filter == "selectattr" || filter == "rejectattr";
  const bool wanted = filter == "select" || filter == "selectattr";
  std::string path;
  if (by_attribute) {
    MUSTER_ASSIGN_OR_RETURN(path, TakeName(filter, arguments));
  }
  const bool tested = !arguments.positional.empty();
  std::string test;
  if (tested) {
    MUSTER_ASSIGN_OR_RETURN(test, TakeName(filter, arguments));
  }
  std::vector<Value> selected;
  for (const Value& item : items) {
    MUSTER_RETURN_IF_ERROR(budget.Spend());
    Value subject = item;
    if (by_attribute) {
      MUSTER_ASSIGN_OR_RETURN(subject, AtPath(item, path, budget));
    }
    bool passes = IsTrue(subject);
    if (tested) {
      MUSTER_ASSIGN_OR_RETURN(passes, TestValue(test, subject, arguments, budget));
    }
    if (passes == wanted) selected.push_back(item);
  }
  return selected;
}

}  // namespace

bool IsSelectingFilter(absl::string_view name) {
  return name == "map" || name == "select" || name == "reject" || name == "selectattr" ||
         name == "rejectattr";
}

absl::StatusOr<Value> ApplySelectingFilter(absl::string_view name, const Value& value,
                                           const Arguments& arguments, Budget& budget) {
  std::vector<Value> items;
  // As Jinja has it, none and false are nothing to go through.
  if (IsTrue(value)) {
    MUSTER_ASSIGN_OR_RETURN(items, Iterate(value, budget));
  }
  const bool attribute = name == "map" && arguments.positional.empty();
  absl::StatusOr<std::vector<Value>> chosen = attribute ? MapAttribute(items, arguments, budget)
                                              : name == "map"
                                                  ? MapFilter(items, arguments, budget)
                                                  : Select(name, items, arguments, budget);
  if (!chosen.ok()) return std::move(chosen).status();
  return Value::Of(*std::move(chosen), Sequence::Form::kGenerator);
}

}  // namespace muster

#include "common/chat_template/values/value_tests.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/chat_template/values/operators.h"
#include "common/text/data_error.h"

namespace muster {
namespace {

using KindTest = bool (*)(const Value&);

bool IsMapping(const Value& value) { return value.dictionary() != nullptr; }

bool IsSequence(const Value& value) {
  if (value.sequence() == nullptr) {
    return value.Is<Undefined>() || value.text() != nullptr || IsMapping(value);
  }
  switch (value.sequence()->form) {
    case Sequence::Form::kList:
    case Sequence::Form::kTuple:
    case Sequence::Form::kRange:
      return true;
    default:
      return false;
  }
}

bool IsIterable(const Value& value) {
  return IsSequence(value) || value.sequence() != nullptr || value.Is<const LoopState*>();
}

bool IsCallable(const Value& value) {
  // Jinja's undefined value has what a function has.
  return value.Is<Undefined>() || value.Is<const Macro*>() || value.Is<GlobalFunction>() ||
         value.Is<BoundMethod>() || value.Is<const LoopState*>();
}

// Tests without an argument.
const std::map<absl::string_view, KindTest>& KindTests() {
  static const auto* tests = new std::map<absl::string_view, KindTest>{
      {"boolean", [](const Value& value) { return value.Is<bool>(); }},
      {"callable", IsCallable},
      {"defined", [](const Value& value) { return !value.Is<Undefined>(); }},
      {"false", [](const Value& value) { return value.Is<bool>() && !*value.As<bool>(); }},
      {"float", [](const Value& value) { return value.Is<double>(); }},
      {"integer", [](const Value& value) { return value.Is<int64_t>(); }},
      {"iterable", IsIterable},
      {"mapping", IsMapping},
      {"none", [](const Value& value) { return value.Is<None>(); }},
      {"number", IsNumber},
      {"sequence", IsSequence},
      {"string", [](const Value& value) { return value.text() != nullptr; }},
      {"true", [](const Value& value) { return value.Is<bool>() && *value.As<bool>(); }},
      {"undefined", [](const Value& value) { return value.Is<Undefined>(); }},
  };
  return *tests;
}

// Tests that compare with an argument, and the operator that each is.
const std::map<absl::string_view, absl::string_view>& Comparisons() {
  static const auto* comparisons = new std::map<absl::string_view, absl::string_view>{
      {"==", "=="}, {"eq", "=="},         {"equalto", "=="}, {"!=", "!="},
      {"ne", "!="}, {"<", "<"},           {"lt", "<"},       {"lessthan", "<"},
      {"<=", "<="}, {"le", "<="},         {">", ">"},        {"gt", ">"},
      {">=", ">="}, {"greaterthan", ">"}, {"ge", ">="},      {"in", "in"}};
  return *comparisons;
}

absl::StatusOr<bool> IsDivisible(const Value& value, int64_t divisor, int64_t rest,
                                 Budget& budget) {
  MUSTER_ASSIGN_OR_RETURN(const Value found, Arithmetic("%", value, Value(divisor), budget));
  return Equal(found, Value(rest));
}

}  // namespace

const std::vector<std::string>& ValueTestNames() {
  static const auto* names = [] {
    auto* all = new std::vector<std::string>{"divisibleby", "even", "odd"};
    for (const auto& [name, test] : KindTests()) all->emplace_back(name);
    for (const auto& [name, sign] : Comparisons()) all->emplace_back(name);
    std::sort(all->begin(), all->end());
    return all;
  }();
  return *names;
}

absl::StatusOr<bool> TestValue(absl::string_view name, const Value& value,
                               const Arguments& arguments, Budget& budget) {
  if (const auto test = KindTests().find(name); test != KindTests().end()) {
    MUSTER_RETURN_IF_ERROR(arguments.Bind(name, {}).status());
    return test->second(value);
  }
  if (name == "even" || name == "odd") {
    MUSTER_RETURN_IF_ERROR(arguments.Bind(name, {}).status());
    return IsDivisible(value, 2, name == "odd" ? 1 : 0, budget);
  }
  const auto comparison = Comparisons().find(name);
  if (comparison == Comparisons().end() && name != "divisibleby") {
    return absl::InvalidArgumentError(absl::StrCat(
        "there is no test ", Quote(name), "; there are: ", absl::StrJoin(ValueTestNames(), ", ")));
  }
  MUSTER_ASSIGN_OR_RETURN(const auto bound, arguments.Bind(name, {"other"}));
  if (bound[0] == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the test '", name, "' compares with an argument; write one after it"));
  }
  if (name == "divisibleby") {
    MUSTER_ASSIGN_OR_RETURN(const int64_t divisor, IntegerOr(bound[0], 1, "num"));
    return IsDivisible(value, divisor, 0, budget);
  }
  return Compare(comparison->second, value, *bound[0], budget);
}

}  // namespace muster

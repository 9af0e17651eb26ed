#include "common/chat_template/evaluator.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/chat_template/strftime.h"
#include "common/chat_template/syntax/template_error.h"
#include "common/chat_template/values/filters.h"
#include "common/chat_template/values/methods.h"
#include "common/chat_template/values/operators.h"
#include "common/chat_template/values/python_repr.h"
#include "common/chat_template/values/value_tests.h"
#include "common/text/printable.h"
#include "common/text/utf8.h"

namespace muster {
namespace {

using ExpressionKind = Expression::Kind;

// As in Jinja's sandbox.
constexpr int64_t kMostInRange = 100'000;

// The most bytes of a template's own error that are told.
constexpr size_t kMostOfError = 400;

}  // namespace

Evaluator::Evaluator(const SyntaxTree& tree, const RenderOptions& options, Budget& budget,
                     MacroCall call_macro)
    : tree_(tree), options_(options), budget_(budget), call_macro_(std::move(call_macro)) {}

absl::Status Evaluator::At(size_t offset, const absl::Status& error) const {
  return error.ok() ? error : TemplateError(tree_.source, offset, error.message());
}

void Evaluator::SetFunctions(Scope& scope) const {
  for (const absl::string_view name :
       {"dict", "namespace", "raise_exception", "range", "strftime_now"}) {
    if (name != "strftime_now" || options_.now) scope.Set(name, Value(GlobalFunction{name}));
  }
}

absl::StatusOr<std::string> Evaluator::EvaluateText(const Expression& expression,
                                                    const Scope& scope) {
  MUSTER_ASSIGN_OR_RETURN(const Value value, Evaluate(expression, scope));
  absl::StatusOr<std::string> text = Str(value, budget_);
  if (!text.ok()) return At(expression.offset, text.status());
  return text;
}

absl::StatusOr<Value> Evaluator::Evaluate(const Expression& expression, const Scope& scope) {
  Budget::Nested nested(budget_);
  MUSTER_RETURN_IF_ERROR(At(expression.offset, nested.Check()));
  MUSTER_RETURN_IF_ERROR(At(expression.offset, budget_.Spend()));
  switch (expression.kind) {
    case ExpressionKind::kConstant:
      return expression.constant;
    case ExpressionKind::kName:
      return Name(expression, scope);
    case ExpressionKind::kList:
    case ExpressionKind::kTuple:
    case ExpressionKind::kDictionary:
      return Compound(expression, scope);
    case ExpressionKind::kAttribute:
    case ExpressionKind::kItem:
    case ExpressionKind::kSlice:
      return Part(expression, scope);
    case ExpressionKind::kFunction:
    case ExpressionKind::kMethod:
    case ExpressionKind::kFilter:
    case ExpressionKind::kTest:
      return Call(expression, scope);
    case ExpressionKind::kSigned:
    case ExpressionKind::kArithmetic:
      return Operation(expression, scope);
    case ExpressionKind::kConcatenate:
      return Concatenation(expression, scope);
    case ExpressionKind::kCompare:
      return Comparison(expression, scope);
    case ExpressionKind::kNot:
    case ExpressionKind::kAnd:
    case ExpressionKind::kOr:
    case ExpressionKind::kConditional:
      return Choice(expression, scope);
  }
  return Value();
}

absl::StatusOr<Value> Evaluator::Name(const Expression& expression, const Scope& scope) {
  if (const Value* value = scope.Find(expression.name)) return *value;
  return Value::UndefinedAs(absl::StrCat("'", expression.name.substr(0, 40), "'"));
}

absl::StatusOr<Value> Evaluator::Compound(const Expression& expression, const Scope& scope) {
  std::vector<Value> items;
  for (const ExpressionPtr& operand : expression.operands) {
    MUSTER_ASSIGN_OR_RETURN(items.emplace_back(), Evaluate(*operand, scope));
  }
  if (expression.kind != ExpressionKind::kDictionary) {
    auto sequence = Value::Of(std::move(items), expression.kind == ExpressionKind::kTuple
                                                    ? Sequence::Form::kTuple
                                                    : Sequence::Form::kList);
    if (!sequence.ok()) return At(expression.offset, sequence.status());
    return sequence;
  }
  // Each key is looked for among those before it.
  MUSTER_RETURN_IF_ERROR(At(expression.offset, budget_.Spend(items.size() * items.size())));
  std::vector<std::pair<Value, Value>> pairs;
  for (size_t i = 0; i < items.size(); i += 2) {
    pairs.emplace_back(std::move(items[i]), std::move(items[i + 1]));
  }
  auto dictionary = Value::Of(std::move(pairs));
  if (!dictionary.ok()) return At(expression.offset, dictionary.status());
  return dictionary;
}

absl::StatusOr<Value> Evaluator::Operation(const Expression& expression, const Scope& scope) {
  MUSTER_ASSIGN_OR_RETURN(Value value, Evaluate(*expression.operands[0], scope));
  if (expression.kind == ExpressionKind::kSigned) {
    auto result = Signed(expression.words[0], value);
    if (!result.ok()) return At(expression.offset, result.status());
    return result;
  }
  for (size_t i = 1; i < expression.operands.size(); ++i) {
    MUSTER_ASSIGN_OR_RETURN(const Value right, Evaluate(*expression.operands[i], scope));
    auto result = Arithmetic(expression.words[i - 1], value, right, budget_);
    if (!result.ok()) return At(expression.operands[i]->offset, result.status());
    value = *std::move(result);
  }
  return value;
}

absl::StatusOr<Value> Evaluator::Choice(const Expression& expression, const Scope& scope) {
  MUSTER_ASSIGN_OR_RETURN(Value value, Evaluate(*expression.operands[0], scope));
  if (expression.kind == ExpressionKind::kNot) return Value(!IsTrue(value));
  if (expression.kind == ExpressionKind::kConditional) {
    const ExpressionPtr& chosen = expression.operands[IsTrue(value) ? 1 : 2];
    if (chosen == nullptr) return Value::UndefinedAs("an `if` without `else`");
    return Evaluate(*chosen, scope);
  }
  const bool goes_on_if = expression.kind == ExpressionKind::kAnd;
  for (size_t i = 1; i < expression.operands.size() && IsTrue(value) == goes_on_if; ++i) {
    MUSTER_ASSIGN_OR_RETURN(value, Evaluate(*expression.operands[i], scope));
  }
  return value;
}

absl::StatusOr<Value> Evaluator::Part(const Expression& expression, const Scope& scope) {
  MUSTER_ASSIGN_OR_RETURN(const Value value, Evaluate(*expression.operands[0], scope));
  std::vector<Value> bounds;
  for (size_t i = 1; i < expression.operands.size(); ++i) {
    bounds.emplace_back();
    if (expression.operands[i] == nullptr) continue;
    MUSTER_ASSIGN_OR_RETURN(bounds.back(), Evaluate(*expression.operands[i], scope));
  }
  absl::StatusOr<Value> part = expression.kind == ExpressionKind::kAttribute
                                   ? AttributeOf(value, expression.name, budget_)
                               : expression.kind == ExpressionKind::kItem
                                   ? Item(value, bounds[0], budget_)
                                   : Slice(value, bounds[0], bounds[1], bounds[2], budget_);
  if (!part.ok()) return At(expression.offset, part.status());
  return part;
}

absl::StatusOr<Value> Evaluator::Comparison(const Expression& expression, const Scope& scope) {
  MUSTER_ASSIGN_OR_RETURN(Value left, Evaluate(*expression.operands[0], scope));
  for (size_t i = 1; i < expression.operands.size(); ++i) {
    MUSTER_ASSIGN_OR_RETURN(Value right, Evaluate(*expression.operands[i], scope));
    const absl::StatusOr<bool> holds = Compare(expression.words[i - 1], left, right, budget_);
    if (!holds.ok()) return At(expression.operands[i]->offset, holds.status());
    if (!*holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

absl::StatusOr<Value> Evaluator::Concatenation(const Expression& expression, const Scope& scope) {
  std::string text;
  for (const ExpressionPtr& operand : expression.operands) {
    MUSTER_ASSIGN_OR_RETURN(const std::string part, EvaluateText(*operand, scope));
    MUSTER_RETURN_IF_ERROR(At(operand->offset, budget_.CheckText(text.size() + part.size())));
    text += part;
  }
  return Value(std::move(text));
}

absl::StatusOr<Arguments> Evaluator::EvaluateArguments(const Expression& call, size_t first,
                                                       const Scope& scope) {
  Arguments arguments;
  const size_t named = call.operands.size() - call.words.size();
  for (size_t i = first; i < call.operands.size(); ++i) {
    MUSTER_ASSIGN_OR_RETURN(Value value, Evaluate(*call.operands[i], scope));
    if (i < named) {
      arguments.positional.push_back(std::move(value));
    } else {
      arguments.named.emplace_back(call.words[i - named], std::move(value));
    }
  }
  return arguments;
}

absl::StatusOr<Value> Evaluator::Call(const Expression& expression, const Scope& scope) {
  if (expression.kind == ExpressionKind::kFunction) {
    MUSTER_ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(expression, 0, scope));
    return CallFunction(expression, scope, arguments);
  }
  MUSTER_ASSIGN_OR_RETURN(const Value value, Evaluate(*expression.operands[0], scope));
  MUSTER_ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(expression, 1, scope));
  absl::StatusOr<Value> result;
  if (expression.kind == ExpressionKind::kTest) {
    const auto passes = TestValue(expression.name, value, arguments, budget_);
    result = passes.ok() ? absl::StatusOr<Value>(Value(*passes)) : passes.status();
  } else if (expression.kind == ExpressionKind::kFilter) {
    result = ApplyFilter(expression.name, value, arguments, budget_);
  } else {
    result = CallMethod(value, expression.name, arguments, budget_);
  }
  if (!result.ok()) return At(expression.offset, result.status());
  return result;
}

absl::StatusOr<Value> Evaluator::CallFunction(const Expression& expression, const Scope& scope,
                                              const Arguments& arguments) {
  MUSTER_ASSIGN_OR_RETURN(const Value callee, Name(expression, scope));
  // A macro's errors have a line and a column of their own.
  if (const auto* macro = callee.As<const Macro*>()) return call_macro_(**macro, arguments);
  absl::StatusOr<Value> result;
  if (const auto* function = callee.As<GlobalFunction>()) {
    result = CallGlobal(function->name, arguments);
  } else if (const auto* undefined = callee.As<Undefined>()) {
    result = UndefinedError(*undefined);
  } else {
    result = absl::InvalidArgumentError(
        absl::StrCat(KindOf(callee), " cannot be called; give the macro a name of its own"));
  }
  if (!result.ok()) return At(expression.offset, result.status());
  return result;
}

absl::StatusOr<Value> Evaluator::CallGlobal(absl::string_view name, const Arguments& arguments) {
  if (name == "raise_exception") return RaiseException(arguments);
  if (name == "range") return Range(arguments);
  if (name == "namespace") return MakeNamespace(arguments);
  if (name == "strftime_now") {
    MUSTER_ASSIGN_OR_RETURN(const auto bound, arguments.Bind(name, {"format"}));
    MUSTER_ASSIGN_OR_RETURN(const std::string format, TextOr(bound[0], "", "format"));
    MUSTER_RETURN_IF_ERROR(budget_.Spend(format.size() * 16));
    MUSTER_ASSIGN_OR_RETURN(std::string text, Strftime(format, *options_.now, options_.zone));
    return Value(std::move(text));
  }
  if (!arguments.positional.empty()) {
    return absl::InvalidArgumentError("dict takes named values alone; write dict(name=value)");
  }
  std::vector<std::pair<Value, Value>> items;
  for (const auto& [key, value] : arguments.named)
    items.emplace_back(Value(std::string(key)), value);
  MUSTER_RETURN_IF_ERROR(budget_.Spend(items.size() * items.size()));
  return Value::Of(std::move(items));
}

absl::StatusOr<Value> Evaluator::RaiseException(const Arguments& arguments) {
  MUSTER_ASSIGN_OR_RETURN(const auto bound, arguments.Bind("raise_exception", {"message"}));
  MUSTER_ASSIGN_OR_RETURN(const std::string text,
                          Str(bound[0] == nullptr ? Value() : *bound[0], budget_));
  return absl::InvalidArgumentError(
      absl::StrCat("the template refuses this chat: ", PrintableLine(CutUtf8(text, kMostOfError))));
}

absl::StatusOr<Value> Evaluator::Range(const Arguments& arguments) {
  MUSTER_ASSIGN_OR_RETURN(const auto bound, arguments.Bind("range", {"start", "stop", "step"}));
  if (bound[0] == nullptr) {
    return absl::InvalidArgumentError("range takes where it stops; give it an integer");
  }
  MUSTER_ASSIGN_OR_RETURN(int64_t start, IntegerOr(bound[0], 0, "start"));
  MUSTER_ASSIGN_OR_RETURN(int64_t stop, IntegerOr(bound[1], start, "stop"));
  MUSTER_ASSIGN_OR_RETURN(const int64_t step, IntegerOr(bound[2], 1, "step"));
  if (bound[1] == nullptr) start = 0;
  if (step == 0) return absl::InvalidArgumentError("range's step is 0; give it another");
  std::vector<Value> items;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<int64_t>(items.size()) == kMostInRange) {
      return absl::InvalidArgumentError(
          absl::StrCat("a range has at most ", kMostInRange, " numbers; make it shorter"));
    }
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  MUSTER_RETURN_IF_ERROR(budget_.Spend(items.size() * sizeof(Value)));
  return Value::Of(std::move(items), Sequence::Form::kRange);
}

absl::StatusOr<Value> Evaluator::MakeNamespace(const Arguments& arguments) {
  if (!arguments.positional.empty()) {
    return absl::InvalidArgumentError(
        "namespace takes named values alone in the subset; write namespace(name=value)");
  }
  Namespace made;
  for (const auto& [name, value] : arguments.named) {
    if (!value.plain()) {
      return absl::InvalidArgumentError(
          absl::StrCat(KindOf(value), " cannot lie in a namespace; give it a name of its own"));
    }
    made.attributes.insert_or_assign(std::string(name), value);
  }
  return Value(&namespaces_.emplace_back(std::move(made)));
}

}  // namespace muster

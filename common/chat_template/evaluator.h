#ifndef MUSTER_COMMON_CHAT_TEMPLATE_EVALUATOR_H_
#define MUSTER_COMMON_CHAT_TEMPLATE_EVALUATOR_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/chat_template/chat_template.h"
#include "common/chat_template/scope.h"
#include "common/chat_template/syntax/syntax_tree.h"
#include "common/chat_template/values/arguments.h"
#include "common/chat_template/values/budget.h"
#include "common/chat_template/values/value.h"

namespace muster {

// Computes the values of a template's expressions. Every error names the line and the column.
class Evaluator {
 public:
  using MacroCall = std::function<absl::StatusOr<Value>(const Macro&, const Arguments&)>;

  // All must outlive this. `call_macro` returns what a macro prints.
  Evaluator(const SyntaxTree& tree, const RenderOptions& options, Budget& budget,
            MacroCall call_macro);

  absl::StatusOr<Value> Evaluate(const Expression& expression, const Scope& scope);

  // Returns Python's str() of an expression's value.
  absl::StatusOr<std::string> EvaluateText(const Expression& expression, const Scope& scope);

  // Returns the same error with the line and the column of an offset.
  absl::Status At(size_t offset, const absl::Status& error) const;

  // Sets the functions that every template has.
  void SetFunctions(Scope& scope) const;

 private:
  absl::StatusOr<Value> Name(const Expression& expression, const Scope& scope);
  absl::StatusOr<Value> Compound(const Expression& expression, const Scope& scope);
  absl::StatusOr<Value> Operation(const Expression& expression, const Scope& scope);
  absl::StatusOr<Value> Choice(const Expression& expression, const Scope& scope);
  absl::StatusOr<Value> Part(const Expression& expression, const Scope& scope);
  absl::StatusOr<Value> Comparison(const Expression& expression, const Scope& scope);
  absl::StatusOr<Value> Concatenation(const Expression& expression, const Scope& scope);
  absl::StatusOr<Value> Call(const Expression& expression, const Scope& scope);
  absl::StatusOr<Value> CallFunction(const Expression& expression, const Scope& scope,
                                     const Arguments& arguments);
  absl::StatusOr<Value> CallGlobal(absl::string_view name, const Arguments& arguments);
  absl::StatusOr<Value> RaiseException(const Arguments& arguments);
  absl::StatusOr<Value> Range(const Arguments& arguments);
  absl::StatusOr<Value> MakeNamespace(const Arguments& arguments);

  // Evaluates the operands from `first` on, of which the last have names.
  absl::StatusOr<Arguments> EvaluateArguments(const Expression& call, size_t first,
                                              const Scope& scope);

  const SyntaxTree& tree_;
  const RenderOptions& options_;
  Budget& budget_;
  const MacroCall call_macro_;
  // The template made these; addresses stay.
  std::deque<Namespace> namespaces_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_CHAT_TEMPLATE_EVALUATOR_H_

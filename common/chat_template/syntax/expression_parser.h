#ifndef MUSTER_COMMON_CHAT_TEMPLATE_SYNTAX_EXPRESSION_PARSER_H_
#define MUSTER_COMMON_CHAT_TEMPLATE_SYNTAX_EXPRESSION_PARSER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/chat_template/syntax/syntax_tree.h"
#include "common/chat_template/syntax/token_stream.h"

namespace muster {

// Parses Jinja's expressions, from the loosest operator to the tightest: if, or, and, not,
// comparisons, + -, ~, * / // %, **, signs, what follows a value ('.', '[', '('), filters and
// tests. Every name of a filter, test, method or function is checked here.
class ExpressionParser {
 public:
  // Takes names that are macros' from `macros`; both must outlive this.
  ExpressionParser(TokenStream& stream, const absl::flat_hash_set<std::string>& macros)
      : stream_(stream), macros_(macros) {}

  absl::StatusOr<ExpressionPtr> Parse();
  // Parses an expression that has no `if` of its own, as in a for loop.
  absl::StatusOr<ExpressionPtr> ParseWithoutIf();
  // Parses an expression, or several that are a tuple without parentheses.
  absl::StatusOr<ExpressionPtr> ParseTuple();

 private:
  using Made = std::unique_ptr<Expression>;
  using Part = absl::StatusOr<ExpressionPtr> (ExpressionParser::*)();

  absl::StatusOr<ExpressionPtr> ParseOr();
  absl::StatusOr<ExpressionPtr> ParseAnd();
  absl::StatusOr<ExpressionPtr> ParseNot();
  absl::StatusOr<ExpressionPtr> ParseComparison();
  absl::StatusOr<ExpressionPtr> ParseSum();
  absl::StatusOr<ExpressionPtr> ParseConcatenation();
  absl::StatusOr<ExpressionPtr> ParseProduct();
  absl::StatusOr<ExpressionPtr> ParsePower();
  absl::StatusOr<ExpressionPtr> ParseUnary();
  absl::StatusOr<ExpressionPtr> ParseSigned();
  absl::StatusOr<ExpressionPtr> ParsePrimary();
  absl::StatusOr<ExpressionPtr> ParseName();
  absl::StatusOr<ExpressionPtr> ParseParentheses();
  absl::StatusOr<ExpressionPtr> ParseList();
  absl::StatusOr<ExpressionPtr> ParseDictionary();
  absl::StatusOr<ExpressionPtr> ParsePostfix(ExpressionPtr value);
  absl::StatusOr<ExpressionPtr> ParseFilters(ExpressionPtr value);
  absl::StatusOr<ExpressionPtr> ParseFilter(ExpressionPtr value);
  absl::StatusOr<ExpressionPtr> ParseTest(ExpressionPtr value);
  absl::StatusOr<ExpressionPtr> ParseAttribute(ExpressionPtr value);
  absl::StatusOr<ExpressionPtr> ParseItem(ExpressionPtr value);
  absl::StatusOr<ExpressionPtr> ParseCall(ExpressionPtr callee);

  // Parses "(a, b, name=c)" and adds it.
  absl::Status ParseArguments(Expression& call);

  // Parses operands of one kind, with any of the signs between them.
  absl::StatusOr<ExpressionPtr> ParseChain(Expression::Kind kind, Part part,
                                           const std::vector<absl::string_view>& signs);

  Made Make(Expression::Kind kind) const;
  // Sets the depth, which has a bound.
  absl::StatusOr<ExpressionPtr> Finish(Made expression);

  TokenStream& stream_;
  const absl::flat_hash_set<std::string>& macros_;
};

// The functions that every template may call.
const std::vector<std::string>& GlobalFunctionNames();

}  // namespace muster

#endif  // MUSTER_COMMON_CHAT_TEMPLATE_SYNTAX_EXPRESSION_PARSER_H_

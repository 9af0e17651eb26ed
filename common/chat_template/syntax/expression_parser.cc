#include "common/chat_template/syntax/expression_parser.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/chat_template/values/filters.h"
#include "common/chat_template/values/methods.h"
#include "common/chat_template/values/value_tests.h"
#include "common/text/data_error.h"

namespace muster {
namespace {

using ExpressionKind = Expression::Kind;
using TokenKind = TemplateToken::Kind;

}  // namespace

absl::StatusOr<ExpressionPtr> ExpressionParser::Parse() {
  TokenStream::Nested nested(stream_);
  MUSTER_RETURN_IF_ERROR(nested.Check());
  MUSTER_ASSIGN_OR_RETURN(ExpressionPtr value, ParseOr());
  while (stream_.IsName("if")) {
    Made conditional = Make(ExpressionKind::kConditional);
    stream_.Skip();
    MUSTER_ASSIGN_OR_RETURN(ExpressionPtr condition, ParseOr());
    ExpressionPtr otherwise;
    if (stream_.TakeName("else")) {
      MUSTER_ASSIGN_OR_RETURN(otherwise, Parse());
    }
    conditional->operands.push_back(std::move(condition));
    conditional->operands.push_back(std::move(value));
    conditional->operands.push_back(std::move(otherwise));
    MUSTER_ASSIGN_OR_RETURN(value, Finish(std::move(conditional)));
  }
  return value;
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseWithoutIf() { return ParseOr(); }

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseTuple() {
  Made tuple = Make(ExpressionKind::kTuple);
  MUSTER_ASSIGN_OR_RETURN(ExpressionPtr value, Parse());
  if (!stream_.IsSign(",")) return value;
  tuple->operands.push_back(std::move(value));
  while (stream_.TakeSign(",")) {
    const TokenKind kind = stream_.current().kind;
    if (kind == TokenKind::kPrintEnd || kind == TokenKind::kBlockEnd || stream_.IsSign(")")) break;
    MUSTER_ASSIGN_OR_RETURN(tuple->operands.emplace_back(), Parse());
  }
  return Finish(std::move(tuple));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseOr() {
  Made chain = Make(ExpressionKind::kOr);
  do {
    MUSTER_ASSIGN_OR_RETURN(chain->operands.emplace_back(), ParseAnd());
  } while (stream_.TakeName("or"));
  return Finish(std::move(chain));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseAnd() {
  Made chain = Make(ExpressionKind::kAnd);
  do {
    MUSTER_ASSIGN_OR_RETURN(chain->operands.emplace_back(), ParseNot());
  } while (stream_.TakeName("and"));
  return Finish(std::move(chain));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseNot() {
  if (!stream_.IsName("not")) return ParseComparison();
  TokenStream::Nested nested(stream_);
  MUSTER_RETURN_IF_ERROR(nested.Check());
  Made negation = Make(ExpressionKind::kNot);
  stream_.Skip();
  MUSTER_ASSIGN_OR_RETURN(negation->operands.emplace_back(), ParseNot());
  return Finish(std::move(negation));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseComparison() {
  static constexpr absl::string_view kSigns[] = {"==", "!=", "<", "<=", ">", ">="};
  Made comparison = Make(ExpressionKind::kCompare);
  MUSTER_ASSIGN_OR_RETURN(comparison->operands.emplace_back(), ParseSum());
  while (true) {
    const TemplateToken& token = stream_.current();
    const bool not_in = stream_.IsName("not") && stream_.next().kind == TokenKind::kName &&
                        stream_.next().text == "in";
    const bool compares =
        token.kind == TokenKind::kSign &&
        std::find(std::begin(kSigns), std::end(kSigns), token.text) != std::end(kSigns);
    if (!not_in && !compares && !stream_.IsName("in")) break;
    comparison->words.push_back(not_in ? "not in" : token.text);
    stream_.Skip();
    if (not_in) stream_.Skip();
    MUSTER_ASSIGN_OR_RETURN(comparison->operands.emplace_back(), ParseSum());
  }
  return Finish(std::move(comparison));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseChain(
    Expression::Kind kind, Part part, const std::vector<absl::string_view>& signs) {
  Made chain = Make(kind);
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(chain->operands.emplace_back(), (this->*part)());
    const bool more = std::any_of(signs.begin(), signs.end(),
                                  [this](absl::string_view sign) { return stream_.IsSign(sign); });
    if (!more) return Finish(std::move(chain));
    chain->words.push_back(stream_.current().text);
    stream_.Skip();
  }
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseSum() {
  return ParseChain(ExpressionKind::kArithmetic, &ExpressionParser::ParseConcatenation, {"+", "-"});
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseConcatenation() {
  return ParseChain(ExpressionKind::kConcatenate, &ExpressionParser::ParseProduct, {"~"});
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseProduct() {
  return ParseChain(ExpressionKind::kArithmetic, &ExpressionParser::ParsePower,
                    {"*", "/", "//", "%"});
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParsePower() {
  return ParseChain(ExpressionKind::kArithmetic, &ExpressionParser::ParseUnary, {"**"});
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseUnary() {
  MUSTER_ASSIGN_OR_RETURN(ExpressionPtr value, ParseSigned());
  return ParseFilters(std::move(value));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseSigned() {
  if (!stream_.IsSign("-") && !stream_.IsSign("+")) {
    MUSTER_ASSIGN_OR_RETURN(ExpressionPtr value, ParsePrimary());
    return ParsePostfix(std::move(value));
  }
  TokenStream::Nested nested(stream_);
  MUSTER_RETURN_IF_ERROR(nested.Check());
  Made value = Make(ExpressionKind::kSigned);
  value->words.push_back(stream_.current().text);
  stream_.Skip();
  MUSTER_ASSIGN_OR_RETURN(value->operands.emplace_back(), ParseSigned());
  return Finish(std::move(value));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParsePrimary() {
  const TemplateToken& token = stream_.current();
  if (token.kind == TokenKind::kName) return ParseName();
  if (stream_.IsSign("(")) return ParseParentheses();
  if (stream_.IsSign("[")) return ParseList();
  if (stream_.IsSign("{")) return ParseDictionary();
  Made constant = Make(ExpressionKind::kConstant);
  if (token.kind == TokenKind::kString) {
    std::string text;
    while (stream_.current().kind == TokenKind::kString) {
      text += stream_.current().text;
      stream_.Skip();
    }
    constant->constant = Value(std::move(text));
    return Finish(std::move(constant));
  }
  if (token.kind == TokenKind::kInteger) {
    constant->constant = Value(token.integer);
  } else if (token.kind == TokenKind::kFloat) {
    constant->constant = Value(token.number);
  } else {
    return stream_.Unexpected("an expression");
  }
  stream_.Skip();
  return Finish(std::move(constant));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseName() {
  const std::string& word = stream_.current().text;
  Made name = Make(ExpressionKind::kConstant);
  if (word == "true" || word == "True" || word == "false" || word == "False") {
    name->constant = Value(word == "true" || word == "True");
  } else if (word != "none" && word != "None") {
    if (IsKeyword(word)) return stream_.Unexpected("an expression");
    for (const absl::string_view refused :
         {"caller", "cycler", "joiner", "kwargs", "lipsum", "self", "super", "varargs"}) {
      if (word == refused) {
        return stream_.Error(absl::StrCat("Jinja's own '", word,
                                          "' is not in the subset; write "
                                          "the template without it"));
      }
    }
    name->kind = ExpressionKind::kName;
    name->name = word;
  }
  stream_.Skip();
  return Finish(std::move(name));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseParentheses() {
  Made empty = Make(ExpressionKind::kTuple);
  stream_.Skip();
  if (stream_.TakeSign(")")) return Finish(std::move(empty));
  MUSTER_ASSIGN_OR_RETURN(ExpressionPtr value, ParseTuple());
  MUSTER_RETURN_IF_ERROR(stream_.ExpectSign(")"));
  return value;
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseList() {
  Made list = Make(ExpressionKind::kList);
  stream_.Skip();
  while (!stream_.IsSign("]")) {
    if (!list->operands.empty()) {
      MUSTER_RETURN_IF_ERROR(stream_.ExpectSign(","));
      if (stream_.IsSign("]")) break;
    }
    MUSTER_ASSIGN_OR_RETURN(list->operands.emplace_back(), Parse());
  }
  stream_.Skip();
  return Finish(std::move(list));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseDictionary() {
  Made dictionary = Make(ExpressionKind::kDictionary);
  stream_.Skip();
  while (!stream_.IsSign("}")) {
    if (!dictionary->operands.empty()) {
      MUSTER_RETURN_IF_ERROR(stream_.ExpectSign(","));
      if (stream_.IsSign("}")) break;
    }
    MUSTER_ASSIGN_OR_RETURN(dictionary->operands.emplace_back(), Parse());
    MUSTER_RETURN_IF_ERROR(stream_.ExpectSign(":"));
    MUSTER_ASSIGN_OR_RETURN(dictionary->operands.emplace_back(), Parse());
  }
  stream_.Skip();
  return Finish(std::move(dictionary));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParsePostfix(ExpressionPtr value) {
  while (true) {
    if (stream_.IsSign(".")) {
      MUSTER_ASSIGN_OR_RETURN(value, ParseAttribute(std::move(value)));
    } else if (stream_.IsSign("[")) {
      MUSTER_ASSIGN_OR_RETURN(value, ParseItem(std::move(value)));
    } else if (stream_.IsSign("(")) {
      MUSTER_ASSIGN_OR_RETURN(value, ParseCall(std::move(value)));
    } else {
      return value;
    }
  }
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseFilters(ExpressionPtr value) {
  while (true) {
    if (stream_.IsSign("|")) {
      MUSTER_ASSIGN_OR_RETURN(value, ParseFilter(std::move(value)));
    } else if (stream_.IsName("is")) {
      MUSTER_ASSIGN_OR_RETURN(value, ParseTest(std::move(value)));
    } else if (stream_.IsSign("(")) {
      MUSTER_ASSIGN_OR_RETURN(value, ParseCall(std::move(value)));
    } else {
      return value;
    }
  }
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseAttribute(ExpressionPtr value) {
  stream_.Skip();
  Made part = Make(ExpressionKind::kAttribute);
  part->operands.push_back(std::move(value));
  const TemplateToken& token = stream_.current();
  if (token.kind == TokenKind::kInteger) {
    part->kind = ExpressionKind::kItem;
    Made index = Make(ExpressionKind::kConstant);
    index->constant = Value(token.integer);
    part->operands.push_back(std::move(index));
  } else if (token.kind == TokenKind::kName) {
    part->name = token.text;
  } else {
    return stream_.Unexpected("a name after '.'");
  }
  stream_.Skip();
  return Finish(std::move(part));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseItem(ExpressionPtr value) {
  Made item = Make(ExpressionKind::kItem);
  stream_.Skip();
  item->operands.push_back(std::move(value));
  ExpressionPtr bounds[3];
  int colons = 0;
  while (!stream_.IsSign("]")) {
    if (stream_.IsSign(":") && colons < 2) {
      stream_.Skip();
      ++colons;
      continue;
    }
    if (bounds[colons] != nullptr) return stream_.Unexpected("']'");
    MUSTER_ASSIGN_OR_RETURN(bounds[colons], Parse());
  }
  if (colons == 0 && bounds[0] == nullptr) return stream_.Unexpected("an index");
  stream_.Skip();
  if (colons > 0) item->kind = ExpressionKind::kSlice;
  for (int i = 0; i < (colons == 0 ? 1 : 3); ++i) item->operands.push_back(std::move(bounds[i]));
  return Finish(std::move(item));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseCall(ExpressionPtr callee) {
  Made call = Make(ExpressionKind::kFunction);
  call->name = callee->name;
  call->offset = callee->offset;
  if (callee->kind == ExpressionKind::kAttribute) {
    const auto& known = MethodNames();
    if (std::find(known.begin(), known.end(), callee->name) == known.end()) {
      return stream_.ErrorAt(callee->offset, absl::StrCat("no method ", Quote(callee->name),
                                                          " is in the subset; there are: ",
                                                          absl::StrJoin(known, ", ")));
    }
    call->kind = ExpressionKind::kMethod;
    // The attribute's own part is the method's object.
    call->operands.push_back(std::move(callee->operands[0]));
  } else if (callee->kind == ExpressionKind::kName) {
    const auto& known = GlobalFunctionNames();
    if (!macros_.contains(callee->name) &&
        std::find(known.begin(), known.end(), callee->name) == known.end()) {
      return stream_.ErrorAt(callee->offset,
                             absl::StrCat("there is no macro ", Quote(callee->name),
                                          ", and no such function in the subset; there are: ",
                                          absl::StrJoin(known, ", ")));
    }
  } else {
    return stream_.Error(
        "only macros, functions and methods are called by their names in the subset; name one");
  }
  MUSTER_RETURN_IF_ERROR(ParseArguments(*call));
  return Finish(std::move(call));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseFilter(ExpressionPtr value) {
  stream_.Skip();
  Made filter = Make(ExpressionKind::kFilter);
  MUSTER_ASSIGN_OR_RETURN(filter->name, stream_.ExpectName());
  const auto& known = FilterNames();
  if (std::find(known.begin(), known.end(), filter->name) == known.end()) {
    return stream_.ErrorAt(
        filter->offset, absl::StrCat("no filter ", Quote(filter->name),
                                     " is in the subset; there are: ", absl::StrJoin(known, ", ")));
  }
  filter->operands.push_back(std::move(value));
  if (stream_.IsSign("(")) MUSTER_RETURN_IF_ERROR(ParseArguments(*filter));
  return Finish(std::move(filter));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseTest(ExpressionPtr value) {
  stream_.Skip();
  const bool negated = stream_.TakeName("not");
  Made test = Make(ExpressionKind::kTest);
  if (stream_.current().kind != TokenKind::kName) return stream_.Unexpected("a test's name");
  test->name = stream_.current().text;
  const auto& known = ValueTestNames();
  if (std::find(known.begin(), known.end(), test->name) == known.end()) {
    return stream_.Error(
        absl::StrCat("no test ", Quote(test->name),
                     " is in the subset; there are: ", absl::StrJoin(known, ", ")));
  }
  stream_.Skip();
  test->operands.push_back(std::move(value));
  const TokenKind kind = stream_.current().kind;
  const bool value_follows =
      kind == TokenKind::kString || kind == TokenKind::kInteger || kind == TokenKind::kFloat ||
      stream_.IsSign("[") || stream_.IsSign("{") ||
      (kind == TokenKind::kName &&
       (!IsKeyword(stream_.current().text) || stream_.IsName("true") || stream_.IsName("True") ||
        stream_.IsName("false") || stream_.IsName("False") || stream_.IsName("none") ||
        stream_.IsName("None")));
  if (stream_.IsSign("(")) {
    MUSTER_RETURN_IF_ERROR(ParseArguments(*test));
  } else if (value_follows) {
    MUSTER_ASSIGN_OR_RETURN(ExpressionPtr argument, ParsePrimary());
    MUSTER_ASSIGN_OR_RETURN(test->operands.emplace_back(), ParsePostfix(std::move(argument)));
  }
  if (!negated) return Finish(std::move(test));
  Made negation = Make(ExpressionKind::kNot);
  negation->offset = test->offset;
  MUSTER_ASSIGN_OR_RETURN(negation->operands.emplace_back(), Finish(std::move(test)));
  return Finish(std::move(negation));
}

absl::Status ExpressionParser::ParseArguments(Expression& call) {
  stream_.Skip();
  bool first = true;
  while (!stream_.IsSign(")")) {
    if (!first) {
      MUSTER_RETURN_IF_ERROR(stream_.ExpectSign(","));
      if (stream_.IsSign(")")) break;
    }
    first = false;
    const bool named = stream_.current().kind == TokenKind::kName &&
                       stream_.next().kind == TokenKind::kSign && stream_.next().text == "=";
    if (stream_.IsSign("*") || stream_.IsSign("**")) {
      return stream_.Error("arguments out of a list with '*' are not in the subset; write each");
    }
    if (named) {
      call.words.push_back(stream_.current().text);
      stream_.Skip();
      stream_.Skip();
    } else if (!call.words.empty()) {
      return stream_.Error("an argument without a name follows one with; name it, too");
    }
    MUSTER_ASSIGN_OR_RETURN(call.operands.emplace_back(), Parse());
  }
  stream_.Skip();
  return absl::OkStatus();
}

ExpressionParser::Made ExpressionParser::Make(Expression::Kind kind) const {
  auto expression = std::make_unique<Expression>();
  expression->kind = kind;
  expression->offset = stream_.current().offset;
  return expression;
}

absl::StatusOr<ExpressionPtr> ExpressionParser::Finish(Made expression) {
  // A chain of one is what it holds.
  const bool chain = expression->kind == ExpressionKind::kOr ||
                     expression->kind == ExpressionKind::kAnd ||
                     expression->kind == ExpressionKind::kCompare ||
                     expression->kind == ExpressionKind::kArithmetic ||
                     expression->kind == ExpressionKind::kConcatenate;
  if (chain && expression->operands.size() == 1) return std::move(expression->operands[0]);
  for (const ExpressionPtr& operand : expression->operands) {
    if (operand != nullptr) expression->depth = std::max(expression->depth, operand->depth + 1);
  }
  MUSTER_RETURN_IF_ERROR(stream_.CheckDepth(expression->depth));
  return ExpressionPtr(std::move(expression));
}

const std::vector<std::string>& GlobalFunctionNames() {
  static const auto* names =
      new std::vector<std::string>{"dict", "namespace", "raise_exception", "range", "strftime_now"};
  return *names;
}

}  // namespace muster

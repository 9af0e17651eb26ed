#include "common/chat_template/syntax/template_parser.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/chat_template/syntax/expression_parser.h"
#include "common/chat_template/syntax/template_lexer.h"
#include "common/chat_template/syntax/token_stream.h"
#include "common/text/data_error.h"
#include "common/text/utf8.h"

namespace muster {
namespace {

// Returns every name that follows a tag's word macro: a macro may be called above its text.
absl::flat_hash_set<std::string> MacroNames(const std::vector<TemplateToken>& tokens) {
  absl::flat_hash_set<std::string> names;
  for (size_t i = 0; i + 2 < tokens.size(); ++i) {
    if (tokens[i].kind == TemplateToken::Kind::kBlockBegin && tokens[i + 1].text == "macro") {
      names.insert(tokens[i + 2].text);
    }
  }
  return names;
}

class BlockParser {
 public:
  BlockParser(TokenStream& stream, const absl::flat_hash_set<std::string>& macros)
      : stream_(stream), expressions_(stream, macros) {}

  // Parses up to a tag whose word is one of `ends`, which is then current, or else to the
  // template's end. `opener` is the word of the block's own tag.
  absl::StatusOr<Block> ParseBlock(const std::vector<absl::string_view>& ends, size_t opener_offset,
                                   absl::string_view opener) {
    TokenStream::Nested nested(stream_);
    MUSTER_RETURN_IF_ERROR(nested.Check());
    Block block;
    while (stream_.current().kind != TemplateToken::Kind::kEnd) {
      if (stream_.current().kind == TemplateToken::Kind::kBlockBegin) {
        stream_.Skip();
        for (const absl::string_view end : ends) {
          if (stream_.IsName(end)) return block;
        }
        MUSTER_ASSIGN_OR_RETURN(block.emplace_back(), ParseTag());
      } else {
        MUSTER_ASSIGN_OR_RETURN(block.emplace_back(), ParseTextOrPrint());
      }
    }
    if (ends.empty()) return block;
    return stream_.ErrorAt(opener_offset, absl::StrCat("'", opener,
                                                       "' begins here and has no end; "
                                                       "add '{% ",
                                                       ends.back(), " %}'"));
  }

  bool marks_generation() const { return marks_generation_; }

 private:
  using Kind = Statement::Kind;

  absl::StatusOr<Statement> ParseTextOrPrint() {
    Statement statement{Kind::kText, stream_.current().offset};
    if (stream_.current().kind == TemplateToken::Kind::kText) {
      statement.text = stream_.current().text;
      stream_.Skip();
      return statement;
    }
    statement.kind = Kind::kPrint;
    MUSTER_RETURN_IF_ERROR(stream_.Expect(TemplateToken::Kind::kPrintBegin));
    MUSTER_ASSIGN_OR_RETURN(statement.expressions.emplace_back(), expressions_.ParseTuple());
    MUSTER_RETURN_IF_ERROR(stream_.Expect(TemplateToken::Kind::kPrintEnd));
    return statement;
  }

  absl::Status EndTag() { return stream_.Expect(TemplateToken::Kind::kBlockEnd); }

  // Parses the tag whose word is current.
  absl::StatusOr<Statement> ParseTag() {
    const size_t offset = stream_.current().offset;
    if (stream_.TakeName("if")) return ParseIf(offset);
    if (stream_.TakeName("for")) return ParseFor(offset);
    if (stream_.TakeName("set")) return ParseSet(offset);
    if (stream_.TakeName("macro")) return ParseMacro(offset);
    if (stream_.TakeName("generation")) return ParseGeneration(offset);
    for (const absl::string_view word : {"break", "continue"}) {
      if (!stream_.TakeName(word)) continue;
      if (loops_ == 0) {
        return stream_.ErrorAt(offset, absl::StrCat("'", word, "' is in no for loop; remove it"));
      }
      MUSTER_RETURN_IF_ERROR(EndTag());
      return Statement{word == "break" ? Kind::kBreak : Kind::kContinue, offset};
    }
    if (stream_.current().kind != TemplateToken::Kind::kName) return stream_.Unexpected("a tag");
    static constexpr absl::string_view kClosing[] = {"elif",   "else",     "endif",        "endfor",
                                                     "endset", "endmacro", "endgeneration"};
    const std::string& word = stream_.current().text;
    if (std::find(std::begin(kClosing), std::end(kClosing), word) != std::end(kClosing)) {
      return stream_.Error(
          absl::StrCat("'", word, "' ends nothing that is open here; remove it, or begin one"));
    }
    return stream_.Error(
        absl::StrCat("no tag ", Quote(word),
                     " is in the subset; there are: if, elif, else, for, set, macro, "
                     "generation, break, continue, raw"));
  }

  absl::StatusOr<Statement> ParseIf(size_t offset) {
    Statement statement{Kind::kIf, offset};
    bool conditional = true;
    while (true) {
      if (conditional) {
        MUSTER_ASSIGN_OR_RETURN(statement.expressions.emplace_back(),
                                expressions_.ParseWithoutIf());
      }
      MUSTER_RETURN_IF_ERROR(EndTag());
      const std::vector<absl::string_view> ends =
          conditional ? std::vector<absl::string_view>{"elif", "else", "endif"}
                      : std::vector<absl::string_view>{"endif"};
      MUSTER_ASSIGN_OR_RETURN(statement.blocks.emplace_back(), ParseBlock(ends, offset, "if"));
      if (stream_.TakeName("endif")) break;
      conditional = stream_.TakeName("elif");
      if (!conditional) stream_.Skip();
    }
    MUSTER_RETURN_IF_ERROR(EndTag());
    return statement;
  }

  absl::StatusOr<Statement> ParseFor(size_t offset) {
    Statement statement{Kind::kFor, offset};
    MUSTER_RETURN_IF_ERROR(ParseTargets(statement));
    if (!stream_.TakeName("in")) return stream_.Unexpected("'in'");
    MUSTER_ASSIGN_OR_RETURN(statement.expressions.emplace_back(), expressions_.ParseWithoutIf());
    statement.expressions.emplace_back();
    if (stream_.TakeName("if")) {
      MUSTER_ASSIGN_OR_RETURN(statement.expressions.back(), expressions_.Parse());
    }
    if (stream_.IsName("recursive")) {
      return stream_.Error("recursive loops are not in the subset; write a macro");
    }
    MUSTER_RETURN_IF_ERROR(EndTag());
    ++loops_;
    MUSTER_ASSIGN_OR_RETURN(statement.blocks.emplace_back(),
                            ParseBlock({"else", "endfor"}, offset, "for"));
    --loops_;
    statement.blocks.emplace_back();
    if (stream_.TakeName("else")) {
      MUSTER_RETURN_IF_ERROR(EndTag());
      MUSTER_ASSIGN_OR_RETURN(statement.blocks.back(), ParseBlock({"endfor"}, offset, "for"));
    }
    stream_.Skip();
    MUSTER_RETURN_IF_ERROR(EndTag());
    return statement;
  }

  // Parses names with commas between them.
  absl::Status ParseTargets(Statement& statement) {
    do {
      if (stream_.IsName("loop")) {
        return stream_.Error("'loop' is what Jinja calls the loop itself; use another name");
      }
      if (stream_.IsSign("(")) {
        return stream_.Error("names in parentheses are not in the subset; write one level alone");
      }
      MUSTER_ASSIGN_OR_RETURN(statement.names.emplace_back(), stream_.ExpectName());
    } while (stream_.TakeSign(","));
    return absl::OkStatus();
  }

  absl::StatusOr<Statement> ParseSet(size_t offset) {
    Statement statement{Kind::kSet, offset};
    MUSTER_RETURN_IF_ERROR(ParseTargets(statement));
    if (statement.names.size() == 1 && stream_.TakeSign(".")) {
      MUSTER_ASSIGN_OR_RETURN(const std::string attribute, stream_.ExpectName());
      absl::StrAppend(&statement.names[0], ".", attribute);
    }
    if (stream_.TakeSign("=")) {
      MUSTER_ASSIGN_OR_RETURN(statement.expressions.emplace_back(), expressions_.ParseTuple());
      MUSTER_RETURN_IF_ERROR(EndTag());
      return statement;
    }
    if (stream_.IsSign("|")) {
      return stream_.Error(
          "a filter on a set block is not in the subset; apply it where the name "
          "is used");
    }
    if (statement.names.size() != 1) return stream_.Unexpected("'='");
    MUSTER_RETURN_IF_ERROR(EndTag());
    statement.kind = Kind::kSetBlock;
    return ParseOwnText(std::move(statement), "endset", "set");
  }

  absl::StatusOr<Statement> ParseMacro(size_t offset) {
    Statement statement{Kind::kMacro, offset};
    MUSTER_ASSIGN_OR_RETURN(statement.text, stream_.ExpectName());
    MUSTER_RETURN_IF_ERROR(stream_.ExpectSign("("));
    bool defaults = false;
    while (!stream_.IsSign(")")) {
      if (!statement.names.empty()) MUSTER_RETURN_IF_ERROR(stream_.ExpectSign(","));
      MUSTER_ASSIGN_OR_RETURN(std::string name, stream_.ExpectName());
      if (std::find(statement.names.begin(), statement.names.end(), name) !=
          statement.names.end()) {
        return stream_.Error("a macro's parameter has this name already; use another");
      }
      statement.names.push_back(std::move(name));
      statement.expressions.emplace_back();
      if (stream_.TakeSign("=")) {
        defaults = true;
        MUSTER_ASSIGN_OR_RETURN(statement.expressions.back(), expressions_.Parse());
      } else if (defaults) {
        return stream_.Error("a parameter without a default follows one with; give it one, too");
      }
    }
    stream_.Skip();
    MUSTER_RETURN_IF_ERROR(EndTag());
    return ParseOwnText(std::move(statement), "endmacro", "macro");
  }

  // Parses the block of a set or macro, whose text is not the template's: no loop goes on outside
  // of it, and nothing generated has a place in the chat.
  absl::StatusOr<Statement> ParseOwnText(Statement statement, absl::string_view end,
                                         absl::string_view opener) {
    const int loops = std::exchange(loops_, 0);
    ++own_texts_;
    MUSTER_ASSIGN_OR_RETURN(statement.blocks.emplace_back(),
                            ParseBlock({end}, statement.offset, opener));
    --own_texts_;
    loops_ = loops;
    stream_.Skip();
    MUSTER_RETURN_IF_ERROR(EndTag());
    return statement;
  }

  absl::StatusOr<Statement> ParseGeneration(size_t offset) {
    if (own_texts_ > 0) {
      return stream_.ErrorAt(offset,
                             "'generation' is within a set, a macro or another generation; mark "
                             "what is printed into the chat itself");
    }
    marks_generation_ = true;
    MUSTER_RETURN_IF_ERROR(EndTag());
    return ParseOwnText(Statement{Kind::kGeneration, offset}, "endgeneration", "generation");
  }

  TokenStream& stream_;
  ExpressionParser expressions_;
  int loops_ = 0;
  // Blocks around, whose text is not printed where it is.
  int own_texts_ = 0;
  bool marks_generation_ = false;
};

}  // namespace

absl::StatusOr<SyntaxTree> ParseTemplate(absl::string_view text, const ChatTemplateLimits& limits) {
  if (text.size() > limits.max_template_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("the chat template has ", text.size(),
                                                   " bytes, and may have ",
                                                   limits.max_template_bytes, "; shorten it"));
  }
  if (!IsUtf8(text)) {
    return absl::InvalidArgumentError("the chat template is not UTF-8; save it as UTF-8");
  }
  SyntaxTree tree;
  tree.source = NormalizedTemplate(text);
  MUSTER_ASSIGN_OR_RETURN(std::vector<TemplateToken> tokens, LexTemplate(tree.source));
  const absl::flat_hash_set<std::string> macros = MacroNames(tokens);
  TokenStream stream(tree.source, std::move(tokens), limits.max_depth);
  BlockParser parser(stream, macros);
  MUSTER_ASSIGN_OR_RETURN(tree.block, parser.ParseBlock({}, 0, ""));
  tree.marks_generation = parser.marks_generation();
  return tree;
}

}  // namespace muster

#ifndef MUSTER_COMMON_CHAT_TEMPLATE_SYNTAX_SYNTAX_TREE_H_
#define MUSTER_COMMON_CHAT_TEMPLATE_SYNTAX_SYNTAX_TREE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "common/chat_template/values/value.h"

namespace muster {

// A tree has what a template says. It never changes once it is parsed, so any number of renderings
// share it.

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Expression {
  enum class Kind {
    kConstant,     // constant
    kName,         // name
    kList,         // operands
    kTuple,        // operands
    kDictionary,   // operands: key, value, key, value
    kAttribute,    // operands[0].name
    kItem,         // operands[0][operands[1]]
    kSlice,        // operands[0][operands[1]:operands[2]:operands[3]]; null is left out
    kFunction,     // name(arguments)
    kMethod,       // operands[0].name(arguments)
    kFilter,       // operands[0] | name(arguments)
    kTest,         // operands[0] is name(arguments)
    kNot,          // operands[0]
    kSigned,       // words[0] operands[0]
    kArithmetic,   // operands[0] words[0] operands[1] words[1] ..., from the left
    kConcatenate,  // operands[0] ~ operands[1] ~ ...
    kCompare,      // operands[0] words[0] operands[1] words[1] ...: all must hold
    kAnd,          // operands
    kOr,           // operands
    kConditional,  // operands[1] if operands[0] else operands[2], which may be null
  };

  Kind kind;
  // In the source.
  size_t offset = 0;
  // The tree is so deep below, with this.
  int depth = 1;
  std::string name = {};
  Value constant = {};
  std::vector<ExpressionPtr> operands = {};
  // Operators; where there are arguments, the names of the last of them.
  std::vector<std::string> words = {};
};

struct Statement;
using Block = std::vector<Statement>;

struct Statement {
  enum class Kind {
    kText,        // text
    kPrint,       // expressions[0]
    kIf,          // blocks[i] if expressions[i]; one more block is the else
    kFor,         // names in expressions[0] if expressions[1], which may be null: blocks[0]; of
                  // nothing blocks[1]
    kSet,         // names = expressions[0]
    kSetBlock,    // names[0] = blocks[0]
    kMacro,       // text(names): blocks[0]; expressions are defaults, null where there is none
    kGeneration,  // blocks[0]
    kBreak,
    kContinue,
  };

  Kind kind;
  size_t offset = 0;
  std::string text = {};
  // A for or set gives values to these. A set may name a namespace's attribute: "space.name".
  std::vector<std::string> names = {};
  std::vector<ExpressionPtr> expressions = {};
  std::vector<Block> blocks = {};
};

struct SyntaxTree {
  // As it was lexed; offsets are in it.
  std::string source;
  Block block;
  bool marks_generation = false;
};

}  // namespace muster

#endif  // MUSTER_COMMON_CHAT_TEMPLATE_SYNTAX_SYNTAX_TREE_H_

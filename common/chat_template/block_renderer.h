#ifndef MUSTER_COMMON_CHAT_TEMPLATE_BLOCK_RENDERER_H_
#define MUSTER_COMMON_CHAT_TEMPLATE_BLOCK_RENDERER_H_

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/chat_template/chat_template.h"
#include "common/chat_template/evaluator.h"
#include "common/chat_template/scope.h"
#include "common/chat_template/syntax/syntax_tree.h"
#include "common/chat_template/values/budget.h"
#include "common/chat_template/values/chat_template_limits.h"

namespace muster {

// Executes a template's statements once.
class BlockRenderer {
 public:
  // Tree and options must outlive this.
  BlockRenderer(const SyntaxTree& tree, const RenderOptions& options,
                const ChatTemplateLimits& limits);

  // Renders with a dictionary's items as names. Called once.
  absl::StatusOr<RenderedChat> Render(const Value& values);

 private:
  // Says what a block makes the loop around it do.
  enum class Flow { kNext, kBreak, kContinue };

  absl::StatusOr<Flow> Execute(const Block& block, Scope& scope);
  absl::StatusOr<Flow> Execute(const Statement& statement, Scope& scope);
  absl::StatusOr<Flow> ExecuteIf(const Statement& statement, Scope& scope);
  absl::StatusOr<Flow> ExecuteFor(const Statement& statement, const Scope& scope);
  absl::Status ExecuteSet(const Statement& statement, Scope& scope);
  absl::Status ExecuteGeneration(const Statement& statement, const Scope& scope);
  absl::Status Append(size_t offset, absl::string_view text);

  // Returns what a loop goes through: the items for which its `if` holds.
  absl::StatusOr<std::vector<Value>> LoopItems(const Statement& statement, const Scope& scope);

  // Gives values to the names, or to a namespace's attribute.
  absl::Status Assign(const Statement& statement, Value value, Scope& scope);
  absl::Status AssignAttribute(const Statement& statement, Value value, const Scope& scope);

  // Returns what the block prints, instead of adding it to the text.
  absl::StatusOr<Value> OwnText(const Block& block, Scope& scope);

  absl::StatusOr<Value> CallMacro(const Macro& macro, const Arguments& arguments);

  const SyntaxTree& tree_;
  Budget budget_;
  Evaluator evaluator_;
  std::deque<Macro> macros_;
  // Blocks print into this now.
  std::string text_;
  std::vector<ByteRange> generated_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_CHAT_TEMPLATE_BLOCK_RENDERER_H_

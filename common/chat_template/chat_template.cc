#include "common/chat_template/chat_template.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/status_macros.h"
#include "common/chat_template/block_renderer.h"
#include "common/chat_template/syntax/syntax_tree.h"
#include "common/chat_template/syntax/template_parser.h"
#include "common/chat_template/values/json_text.h"

namespace muster {

absl::StatusOr<ChatTemplate> ChatTemplate::Parse(absl::string_view text,
                                                 const ChatTemplateLimits& limits) {
  MUSTER_ASSIGN_OR_RETURN(SyntaxTree tree, ParseTemplate(text, limits));
  return ChatTemplate(std::make_unique<const SyntaxTree>(std::move(tree)), limits);
}

ChatTemplate::ChatTemplate(std::unique_ptr<const SyntaxTree> tree, const ChatTemplateLimits& limits)
    : tree_(std::move(tree)), limits_(limits) {}

ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

absl::StatusOr<RenderedChat> ChatTemplate::Render(const nlohmann::ordered_json& values,
                                                  const RenderOptions& options) const {
  if (!values.is_object()) {
    return absl::InvalidArgumentError(
        "a chat template is rendered with a JSON object; pass {\"messages\": [...]}");
  }
  MUSTER_ASSIGN_OR_RETURN(const Value given, ValueOfJson(values));
  return BlockRenderer(*tree_, options, limits_).Render(given);
}

bool ChatTemplate::marks_generation() const { return tree_->marks_generation; }

}  // namespace muster

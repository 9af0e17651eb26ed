#include "common/chat_template/block_renderer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/chat_template/values/operators.h"
#include "common/text/data_error.h"

namespace muster {

BlockRenderer::BlockRenderer(const SyntaxTree& tree, const RenderOptions& options,
                             const ChatTemplateLimits& limits)
    : tree_(tree),
      budget_(limits),
      evaluator_(tree, options, budget_, [this](const Macro& macro, const Arguments& arguments) {
        return CallMacro(macro, arguments);
      }) {}

absl::StatusOr<RenderedChat> BlockRenderer::Render(const Value& values) {
  Scope scope(nullptr);
  evaluator_.SetFunctions(scope);
  for (const auto& [key, value] : values.dictionary()->items) scope.Set(*key.text(), value);
  MUSTER_RETURN_IF_ERROR(Execute(tree_.block, scope).status());
  return RenderedChat{std::move(text_), std::move(generated_)};
}

absl::StatusOr<BlockRenderer::Flow> BlockRenderer::Execute(const Block& block, Scope& scope) {
  for (const Statement& statement : block) {
    MUSTER_ASSIGN_OR_RETURN(const Flow flow, Execute(statement, scope));
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

absl::StatusOr<BlockRenderer::Flow> BlockRenderer::Execute(const Statement& statement,
                                                           Scope& scope) {
  Budget::Nested nested(budget_);
  MUSTER_RETURN_IF_ERROR(evaluator_.At(statement.offset, nested.Check()));
  MUSTER_RETURN_IF_ERROR(evaluator_.At(statement.offset, budget_.Spend()));
  switch (statement.kind) {
    case Statement::Kind::kText:
      MUSTER_RETURN_IF_ERROR(evaluator_.At(statement.offset, budget_.Spend(statement.text.size())));
      MUSTER_RETURN_IF_ERROR(Append(statement.offset, statement.text));
      return Flow::kNext;
    case Statement::Kind::kPrint: {
      MUSTER_ASSIGN_OR_RETURN(const std::string text,
                              evaluator_.EvaluateText(*statement.expressions[0], scope));
      MUSTER_RETURN_IF_ERROR(Append(statement.offset, text));
      return Flow::kNext;
    }
    case Statement::Kind::kIf:
      return ExecuteIf(statement, scope);
    case Statement::Kind::kFor:
      return ExecuteFor(statement, scope);
    case Statement::Kind::kSet:
    case Statement::Kind::kSetBlock:
      MUSTER_RETURN_IF_ERROR(ExecuteSet(statement, scope));
      return Flow::kNext;
    case Statement::Kind::kMacro:
      scope.Set(statement.text, Value(&macros_.emplace_back(Macro{&statement, &scope})));
      return Flow::kNext;
    case Statement::Kind::kGeneration:
      MUSTER_RETURN_IF_ERROR(ExecuteGeneration(statement, scope));
      return Flow::kNext;
    case Statement::Kind::kBreak:
      return Flow::kBreak;
    case Statement::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

absl::StatusOr<BlockRenderer::Flow> BlockRenderer::ExecuteIf(const Statement& statement,
                                                             Scope& scope) {
  for (size_t i = 0; i < statement.blocks.size(); ++i) {
    if (i < statement.expressions.size()) {
      MUSTER_ASSIGN_OR_RETURN(const Value condition,
                              evaluator_.Evaluate(*statement.expressions[i], scope));
      if (!IsTrue(condition)) continue;
    }
    return Execute(statement.blocks[i], scope);
  }
  return Flow::kNext;
}

absl::StatusOr<std::vector<Value>> BlockRenderer::LoopItems(const Statement& statement,
                                                            const Scope& scope) {
  MUSTER_ASSIGN_OR_RETURN(const Value value, evaluator_.Evaluate(*statement.expressions[0], scope));
  absl::StatusOr<std::vector<Value>> items = Iterate(value, budget_);
  if (!items.ok()) return evaluator_.At(statement.expressions[0]->offset, items.status());
  if (statement.expressions[1] == nullptr) return items;
  std::vector<Value> chosen;
  for (Value& item : *items) {
    Scope round(&scope);
    MUSTER_RETURN_IF_ERROR(Assign(statement, item, round));
    MUSTER_ASSIGN_OR_RETURN(const Value holds,
                            evaluator_.Evaluate(*statement.expressions[1], round));
    if (IsTrue(holds)) chosen.push_back(std::move(item));
  }
  return chosen;
}

absl::StatusOr<BlockRenderer::Flow> BlockRenderer::ExecuteFor(const Statement& statement,
                                                              const Scope& scope) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<Value> items, LoopItems(statement, scope));
  LoopState loop{&items};
  for (; loop.index < items.size(); ++loop.index) {
    MUSTER_RETURN_IF_ERROR(evaluator_.At(statement.offset, budget_.Spend()));
    Scope round(&scope);
    round.Set("loop", Value(&loop));
    MUSTER_RETURN_IF_ERROR(Assign(statement, items[loop.index], round));
    MUSTER_ASSIGN_OR_RETURN(const Flow flow, Execute(statement.blocks[0], round));
    if (flow == Flow::kBreak) break;
  }
  if (!items.empty()) return Flow::kNext;
  Scope otherwise(&scope);
  return Execute(statement.blocks[1], otherwise);
}

absl::Status BlockRenderer::ExecuteSet(const Statement& statement, Scope& scope) {
  if (statement.kind == Statement::Kind::kSetBlock) {
    Scope block(&scope);
    MUSTER_ASSIGN_OR_RETURN(Value text, OwnText(statement.blocks[0], block));
    return Assign(statement, std::move(text), scope);
  }
  MUSTER_ASSIGN_OR_RETURN(Value value, evaluator_.Evaluate(*statement.expressions[0], scope));
  return Assign(statement, std::move(value), scope);
}

absl::Status BlockRenderer::ExecuteGeneration(const Statement& statement, const Scope& scope) {
  const size_t begin = text_.size();
  Scope block(&scope);
  MUSTER_RETURN_IF_ERROR(Execute(statement.blocks[0], block).status());
  if (text_.size() > begin) generated_.push_back({begin, text_.size()});
  return absl::OkStatus();
}

absl::Status BlockRenderer::Append(size_t offset, absl::string_view text) {
  MUSTER_RETURN_IF_ERROR(evaluator_.At(offset, budget_.CheckText(text_.size() + text.size())));
  absl::StrAppend(&text_, text);
  return absl::OkStatus();
}

absl::Status BlockRenderer::Assign(const Statement& statement, Value value, Scope& scope) {
  if (statement.names.size() == 1) {
    if (absl::string_view(statement.names[0]).find('.') != absl::string_view::npos) {
      return AssignAttribute(statement, std::move(value), scope);
    }
    scope.Set(statement.names[0], std::move(value));
    return absl::OkStatus();
  }
  auto parts = Iterate(value, budget_);
  if (!parts.ok()) return evaluator_.At(statement.offset, parts.status());
  if (parts->size() != statement.names.size()) {
    return evaluator_.At(statement.offset,
                         absl::InvalidArgumentError(
                             absl::StrCat(parts->size(), " values are for ", statement.names.size(),
                                          " names here; write a name for each")));
  }
  for (size_t i = 0; i < parts->size(); ++i) {
    scope.Set(statement.names[i], std::move((*parts)[i]));
  }
  return absl::OkStatus();
}

absl::Status BlockRenderer::AssignAttribute(const Statement& statement, Value value,
                                            const Scope& scope) {
  const absl::string_view target = statement.names[0];
  const size_t dot = target.find('.');
  const Value* found = scope.Find(target.substr(0, dot));
  const auto* space = found == nullptr ? nullptr : found->As<Namespace*>();
  if (space == nullptr || !value.plain()) {
    return evaluator_.At(
        statement.offset,
        absl::InvalidArgumentError(
            space == nullptr ? absl::StrCat(Quote(target.substr(0, dot)),
                                            " is no namespace; make it one with namespace()")
                             : absl::StrCat(KindOf(value),
                                            " cannot lie in a namespace; give it a "
                                            "name of its own")));
  }
  (*space)->attributes.insert_or_assign(std::string(target.substr(dot + 1)), std::move(value));
  return absl::OkStatus();
}

absl::StatusOr<Value> BlockRenderer::OwnText(const Block& block, Scope& scope) {
  std::string around = std::exchange(text_, std::string());
  const auto flow = Execute(block, scope);
  std::string text = std::exchange(text_, std::move(around));
  if (!flow.ok()) return flow.status();
  return Value(std::move(text));
}

absl::StatusOr<Value> BlockRenderer::CallMacro(const Macro& macro, const Arguments& arguments) {
  const Statement& statement = *macro.statement;
  const auto bound = arguments.Bind(
      statement.text,
      std::vector<absl::string_view>(statement.names.begin(), statement.names.end()));
  if (!bound.ok()) return evaluator_.At(statement.offset, bound.status());
  Scope scope(macro.scope);
  for (size_t i = 0; i < statement.names.size(); ++i) {
    const std::string& name = statement.names[i];
    if ((*bound)[i] != nullptr) {
      scope.Set(name, *(*bound)[i]);
    } else if (statement.expressions[i] != nullptr) {
      MUSTER_ASSIGN_OR_RETURN(Value value, evaluator_.Evaluate(*statement.expressions[i], scope));
      scope.Set(name, std::move(value));
    } else {
      scope.Set(name, Value::UndefinedAs(absl::StrCat("parameter '", name.substr(0, 40), "'")));
    }
  }
  return OwnText(statement.blocks[0], scope);
}

}  // namespace muster
